"""Files of tokens as Megatron-core 0.16 writes them (core/datasets/indexed_dataset.py), in numpy."""

import struct
from pathlib import Path

import numpy as np


def write_megatron(prefix: Path, documents: list[list[list[int]]], code: int, dtype: str, modes: bool = False) -> None:
    """PREFIX.idx and PREFIX.bin.

    Args:
        documents: the sequences of each
        code, dtype: the type of the tokens
        modes: write the mode of each sequence, too, as for text with pictures
    """
    prefix.parent.mkdir(parents=True, exist_ok=True)
    sequences = [np.array(sequence, dtype) for document in documents for sequence in document]
    lengths = np.array([*map(len, sequences)], np.int32)
    pointers = np.append(0, lengths.cumsum(dtype=np.int64) * np.dtype(dtype).itemsize)[: len(lengths)]
    boundaries = np.cumsum([0, *map(len, documents)])
    numbers = struct.pack("<QBQQ", 1, code, len(sequences), len(boundaries))
    arrays = [lengths, pointers.astype(np.int64), boundaries.astype(np.int64)]
    parts = [b"MMIDIDX\x00\x00", numbers, *(array.tobytes() for array in arrays), bytes(len(lengths)) * modes]
    Path(f"{prefix}.idx").write_bytes(b"".join(parts))
    Path(f"{prefix}.bin").write_bytes(b"".join(sequence.tobytes() for sequence in sequences))
