"""Files that may be compressed, read as streams."""

import bz2
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": zstd.open}
ENDINGS = (*OPEN, *map(str.upper, OPEN))
FAULTS = (EOFError, OSError, zlib.error, lzma.LZMAError, zstd.ZstdError)


class Damaged(Exception):
    """A compressed file is cut, or it is not of the format that its ending names."""

    def sentence(self, path: Path, line: int) -> str:
        """What to tell of a file whose lines could be read up to this one. Of a cut .bz2 or .zst only whole blocks can
        be read, of up to 900 or 128 KB of text, so it may be that no line can."""
        where = f"after line {line}" if line else "so that no line of it can be read"
        return f"{path} is damaged {where} ({self}): get it again."


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, uncompressed. All parts of a file that was put together of several are read.

    Raises:
        Damaged: when it is read until the fault, or its end
    """
    try:
        with OPEN.get(path.suffix.lower(), open)(path, "rb") as file:
            yield file
    except FAULTS as error:
        if isinstance(error, OSError) and error.errno:  # of the system; those of formats have no number
            raise
        raise Damaged(str(error)) from error


def is_compressed(path: Path) -> bool:
    """By its ending, which may be in capitals."""
    return path.suffix.lower() in OPEN


def plain_name(path: Path) -> str:
    """The name of the file without the ending of its compression."""
    return path.stem if is_compressed(path) else path.name
