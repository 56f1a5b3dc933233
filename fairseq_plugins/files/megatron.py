"""Megatron's files of tokens, PREFIX.idx and PREFIX.bin, whose index begins as fairseq's does.

    fairseq     magic, version, type of the tokens, N; N lengths, N pointers                      26 + 12 N bytes
    Megatron    magic, version, type of the tokens, N, D; N lengths, N pointers, D boundaries     34 + 12 N + 8 D bytes

Megatron's data of several modes have N more bytes. So the size of an index is that of one form only. N sequences; D
boundaries of documents, numbers of sequences, from 0 to N.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_plugins.errors import UserError

START = b"MMIDIDX\x00\x00" + struct.pack("<Q", 1)
HEADER = 34
SLICE = 1 << 16  # sequences that are checked at once
# Codes of Megatron's; 7 is a float of 8 bytes in fairseq
TYPES = dict(enumerate("uint8 int8 int16 int32 int64 float64 float32 uint16".split(), start=1))


class Index(NamedTuple):
    """
    Attributes:
        dtype: of the tokens
        lengths: [N] tokens of each sequence
        boundaries: [D] sequences before each document, and after the last
    """

    dtype: np.dtype
    lengths: np.ndarray
    boundaries: np.ndarray


def read_index(prefix: str | Path) -> Index | None:
    """The index of PREFIX.idx and PREFIX.bin; None unless these are surely Megatron's: every size, every pointer and
    every boundary is as Megatron writes it."""
    index, data = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    size = index.stat().st_size
    with open(index, "rb") as file:
        header = file.read(HEADER)
        if len(header) < HEADER or not header.startswith(START) or header[17] not in TYPES:
            return None
        sequences, documents = struct.unpack("<QQ", header[18:])
        expected = HEADER + 12 * sequences + 8 * documents
        if size not in (expected, expected + sequences):
            return None
        lengths = np.fromfile(file, np.int32, sequences)
        pointers = np.fromfile(file, np.int64, sequences)
        boundaries = np.fromfile(file, np.int64, documents)
    dtype = np.dtype(TYPES[header[17]])
    end = end_of(lengths, pointers, dtype.itemsize)
    limits = np.concatenate([[0], boundaries, [sequences]])
    sure = (lengths >= 0).all() and (np.diff(limits) >= 0).all() and end is not None
    return Index(dtype, lengths, boundaries) if sure and data.stat().st_size == end else None


def end_of(lengths: np.ndarray, pointers: np.ndarray, size: int) -> int | None:
    """Where the last of these sequences ends, in bytes, if they follow one another as the pointers say; else None.

    Args:
        lengths, pointers: [N], perhaps in a mapped file: few are read at once, since there may be millions
        size: bytes of a token
    """
    end = 0
    for first in range(0, len(lengths), SLICE):
        ends = end + lengths[first : first + SLICE].cumsum(dtype=np.int64) * size
        if not np.array_equal(pointers[first : first + SLICE], np.append(end, ends[:-1])):
            return None
        end = int(ends[-1])
    return end


def documents(prefix: str | Path) -> Iterator[np.ndarray]:
    """The tokens of each document, as they are numbered by its tokeniser, in int64. Raises UserError if the files are
    not there, not Megatron's, or hold no tokens."""
    for file in (f"{prefix}.idx", f"{prefix}.bin"):
        if not Path(file).is_file():
            raise UserError(f"{file} does not exist; give the prefix of Megatron's files, without .idx and .bin.")
    index = read_index(prefix)
    if index is None:
        raise UserError(f"{prefix}.idx and {prefix}.bin are not Megatron's, or damaged; give the prefix of such files.")
    if index.dtype.kind == "f":
        raise UserError(f"{prefix}.bin holds numbers of type {index.dtype}, which are no tokens; give other files.")
    empty = not index.lengths.any()  # such a file cannot be mapped
    tokens = np.zeros(0, index.dtype) if empty else np.memmap(f"{prefix}.bin", index.dtype, "r")
    limits = np.unique(np.concatenate([[0], index.boundaries, [len(index.lengths)]]))
    before = np.concatenate([[0], index.lengths.cumsum(dtype=np.int64)])
    for first, last in zip(before[limits[:-1]], before[limits[1:]], strict=True):
        yield tokens[first:last].astype(np.int64)
