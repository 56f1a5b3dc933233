"""Text of symbols between spaces becomes the files that fairseq-train reads: dict.txt, and SPLIT.bin and SPLIT.idx.

The files are those of fairseq-preprocess, byte for byte. fairseq-preprocess itself takes seconds to start, calls
several functions of Python for every token, and holds a number for every line; this module reads chunks of text, so
that memory holds the dictionary and nothing else, whatever the size of the text and of its lines.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # the first symbols of every dictionary of fairseq, in this order
END, UNKNOWN = SPECIAL.index("</s>"), SPECIAL.index("<unk>")
CHUNK = 2**20  # bytes that are read at once

# Which lines get an end-of-line token: all; those with a newline, which the last line may lack; or none
ALL, NEWLINES, NONE = "all", "newlines", "none"


class Binarised(NamedTuple):
    """
    Attributes:
        lines: number of lines
        ends: number of end-of-line tokens
        tokens: number of the other tokens
        unknown: number of tokens, among these, that are <unk>
    """

    lines: int
    ends: int
    tokens: int
    unknown: int

    @property
    def percent_unknown(self) -> float:
        return 100 * self.unknown / max(self.tokens + self.ends, 1)


def count(texts: Iterable[Path]) -> Counter:
    """How often each symbol occurs in the texts."""
    counts = Counter()
    for path in texts:
        for chunk in read_chunks(path, f"{path.name}: dictionary"):
            counts.update(chunk.split())
    return counts


def write_dictionary(
    path: Path, counts: dict[str, int], always: Iterable[str] = (), min_count: int = 1, multiple: int = 1
) -> None:
    """Write the symbols and their counts, the most frequent first.

    Args:
        always: symbols that are in the dictionary even if they do not occur
        min_count: leave out symbols that occur less often
        multiple: fill up the dictionary to a multiple of this number of entries
    """
    kept = {symbol: number for symbol, number in counts.items() if number >= min_count}
    kept = {symbol: number for symbol, number in {**dict.fromkeys(always, 0), **kept}.items() if symbol not in SPECIAL}
    entries = sorted(kept.items(), key=lambda entry: (-entry[1], entry[0]))
    fillers = -(len(SPECIAL) + len(entries)) % multiple
    entries += [(f"madeupword{number:04d}", 0) for number in range(fillers)]
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{symbol} {number}\n" for symbol, number in entries)


class Indices(dict):
    """The index of each symbol of a dictionary file; that of <unk> for any other symbol."""

    def __init__(self, path: Path):
        with open(path, encoding="utf-8", newline="\n") as file:
            symbols = chain(SPECIAL, (line.rsplit(" ", 1)[0] for line in file))
            super().__init__((symbol, number) for number, symbol in enumerate(symbols))

    def __missing__(self, symbol: str) -> int:
        return UNKNOWN


def binarise(text: Path, prefix: Path, indices: Indices, ends: str = ALL) -> Binarised:
    """Write PREFIX.bin and PREFIX.idx.

    Args:
        text: lines of symbols between spaces
        ends: ALL, NEWLINES or NONE
    """
    kind, code = (np.uint16, 8) if len(indices) < 65500 else (np.uint32, 9)  # fairseq's choice, and its number for it
    line_end = [END] if ends != NONE else []
    lines = tokens = unknown = 0
    chunk = "\n"
    borders = Path(f"{prefix}.borders")  # for each line the number of tokens up to its end
    with open(f"{prefix}.bin", "wb") as data, open(borders, "wb") as borders_file:

        def write(found: list[int], new_borders: list[int]) -> None:
            np.array(found, dtype=kind).tofile(data)
            np.array(new_borders, dtype=np.int64).tofile(borders_file)

        for chunk in read_chunks(text, f"{text.name}: binarise"):
            found, new_borders = [], []
            *whole, rest = chunk.split("\n")
            for line in whole:
                found += map(indices.__getitem__, line.split())
                found += line_end
                new_borders.append(tokens + len(found))
            found += map(indices.__getitem__, rest.split())
            lines, tokens, unknown = lines + len(whole), tokens + len(found), unknown + found.count(UNKNOWN)
            write(found, new_borders)
        made = lines if line_end else 0
        if not chunk.endswith("\n"):
            last_end = [END] if ends == ALL else []
            lines, tokens, made = lines + 1, tokens + len(last_end), made + len(last_end)
            write(last_end, [tokens])
    _write_index(Path(f"{prefix}.idx"), borders, code, np.dtype(kind).itemsize)
    borders.unlink()
    return Binarised(lines, made, tokens - made, unknown)


def read_chunks(path: Path, doing: str) -> Iterator[str]:
    """Blocks of the text that end after white space, with a progress bar on a terminal."""
    rest = b""
    with (
        open(path, "rb") as file,
        tqdm(desc=doing, total=path.stat().st_size, unit="B", unit_scale=True, disable=None, leave=False) as bar,
    ):
        while read := file.read(CHUNK):
            bar.update(len(read))
            data = rest + read
            cut = max(data.rfind(b"\n"), data.rfind(b" ")) + 1
            rest = data[cut:]
            if cut:
                yield data[:cut].decode()
    if rest:
        yield rest.decode()


def _write_index(path: Path, borders: Path, code: int, width: int) -> None:
    """The index of fairseq's mmap format: the size of each line in tokens, then where it begins in bytes."""
    with open(path, "wb") as index:
        index.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, code, borders.stat().st_size // 8))
        for begins, ends in _begins_and_ends(borders):
            (ends - begins).astype(np.int32).tofile(index)
        for begins, _ in _begins_and_ends(borders):
            (begins * width).tofile(index)


def _begins_and_ends(borders: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Where lines begin and end in tokens, a part of the lines at a time."""
    begin = 0
    with open(borders, "rb") as file:
        while len(ends := np.fromfile(file, dtype=np.int64, count=CHUNK)):
            yield np.concatenate([[begin], ends[:-1]]), ends
            begin = ends[-1]
