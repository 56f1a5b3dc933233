"""Raw text from files, compressed or not, and from standard input, in constant memory."""

import codecs
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.compressed import Damaged, opened
from fairseq_plugins.files.reading import regular

LONGEST = 2**20  # bytes of a line that are read at once
STDIN = Path("-")


def read_text(path: Path, errors: str = "strict") -> Iterator[str]:
    """The lines of a text with their newlines, which the last line may lack. Only a newline ends a line. A line that is
    longer than LONGEST comes in pieces, cut before a space where there is one. A byte order mark at the beginning is no
    text, but if any bytes are allowed, it is kept as all others.

    Args:
        path: a file in UTF-8, which may be compressed; STDIN: standard input
        errors: "strict", or "surrogateescape" for bytes that need not be UTF-8

    Raises:
        UserError: the file is not there, damaged, or not UTF-8
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig" if errors == "strict" else "utf-8")(errors)
    number, rest = 1, ""
    try:
        with _open(path) as file:
            while read := file.readline(LONGEST):
                piece = rest + decoder.decode(read)
                cut = len(piece)
                if len(read) == LONGEST and not piece.endswith("\n") and " " in piece[1:]:
                    cut = piece.rindex(" ")
                rest = piece[cut:]
                if cut:
                    yield piece[:cut]
                number += piece.endswith("\n")
        if rest := rest + decoder.decode(b"", final=True):
            yield rest
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 in line {number} ({error.reason}): convert it, for example with iconv, or prepare"
            " it as bytes (--level byte)."
        ) from None
    except Damaged as error:
        raise UserError(error.sentence(path, number - 1)) from None
    except OSError as error:
        name = "standard input" if path == STDIN else path
        raise UserError(f"{name} cannot be read ({error.strerror}): check the path.") from error


def _open(path: Path):
    if path == STDIN:
        return nullcontext(sys.stdin.buffer)
    regular(path)
    return opened(path)
