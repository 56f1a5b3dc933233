"""Megatron's files are known as Megatron's, fairseq's as fairseq's, whatever stands in them."""

import itertools
import os
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import data_utils, indexed_dataset
from megatron_files import write_megatron

import fairseq_plugins  # noqa: F401
from fairseq_plugins.errors import UserError
from fairseq_plugins.files.megatron import SLICE, TYPES, documents, end_of, read_index

MANY = [[[*range(length)] for length in (3, 0, 5)], [[7] * 20], []] * 4
TEXTS = {
    "nothing": [],
    "an empty document": [[]],
    "an empty sequence": [[[]]],
    "a token": [[[5]]],
    "two documents": [[[5, 6]], [[7]]],
    "a document of two sequences": [[[5, 6], [7]]],
    "many": MANY,
    # what fairseq takes for lengths makes up the size of the data: D = 2 + 1, the last two lengths
    "lengths that fit": [[[1], [2]], [[3, 4], [5]]],
    "pointers that fit": [[[], [], []]],
}


def write_fairseq(prefix: Path, sequences: list[list[int]], dtype: str) -> None:
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{prefix}.bin", np.dtype(dtype).type)
    for sequence in sequences:
        builder.add_item(torch.tensor(sequence, dtype=torch.long))
    builder.finalize(f"{prefix}.idx")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("modes", [False, True])
def test_megatrons_files_are_known_and_read(text, modes, tmp_path):
    for code, dtype in TYPES.items():
        prefix = tmp_path / dtype
        write_megatron(prefix, TEXTS[text], code, dtype, modes)
        assert read_index(prefix).lengths.tolist() == [
            len(sequence) for document in TEXTS[text] for sequence in document
        ]
        with pytest.raises(UserError, match="is an index of Megatron's"):
            data_utils.load_indexed_dataset(str(prefix))
        if "int" in dtype:
            expected = [sum(document, []) for document in TEXTS[text] if document]
            assert [document.tolist() for document in documents(prefix)] == expected


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float64", "uint16", "uint32", "uint64"])
def test_fairseqs_files_are_not(dtype, tmp_path):
    """All lengths up to 3 of up to 4 sentences, of which fairseq's index has the first two where Megatron has D."""
    for number, lengths in enumerate(
        lengths for sentences in range(5) for lengths in itertools.product(range(4), repeat=sentences)
    ):
        prefix = tmp_path / str(number)
        sequences = [[5] * length for length in lengths]
        write_fairseq(prefix, sequences, dtype)
        assert read_index(prefix) is None
        if sum(lengths) and number % 10 == 0:
            read = data_utils.load_indexed_dataset(str(prefix))
            assert [sentence.tolist() for sentence in read] == sequences


@pytest.mark.parametrize("ending", ["idx", "bin"])
def test_what_is_damaged_is_no_ones(ending, tmp_path):
    """One byte less, one more, and any byte that is another."""
    write_megatron(tmp_path / "m", TEXTS["two documents"], 8, "uint16")
    write_fairseq(tmp_path / "f", [[5, 6], [7]], "uint16")
    for form in "mf":
        file = tmp_path / f"{form}.{ending}"
        whole = file.read_bytes()
        for wrong in (whole[:-1], whole + b"\x00"):
            file.write_bytes(wrong)
            with pytest.raises(UserError, match="damaged"):
                data_utils.load_indexed_dataset(str(tmp_path / form))
        for place in range(len(whole)) if ending == "idx" else ():
            wrong = bytearray(whole)
            wrong[place] ^= 1 << random.Random(place).randrange(8)
            file.write_bytes(wrong)
            read = read_index(tmp_path / form)
            # what is left may be a type of the same size, or another boundary
            assert read is None or form == "m" and (place == 17 or place >= len(whole) - 24)
        file.write_bytes(whole)


def test_others_are_not_read_as_megatrons(tmp_path):
    write_fairseq(tmp_path / "f", [[5, 6], [7]], "uint16")
    with pytest.raises(UserError, match="f.bin are not Megatron's"):
        next(documents(tmp_path / "f"))
    write_megatron(tmp_path / "m", [[[1, 2]]], 7, "float32")
    with pytest.raises(UserError, match="float32, which are no tokens"):
        next(documents(tmp_path / "m"))
    (tmp_path / "m.bin").unlink()
    for name, missing in (("m", "m.bin"), ("none", "none.idx")):
        with pytest.raises(UserError, match=f"{missing} does not exist; give the prefix"):
            next(documents(tmp_path / name))


def test_indices_are_checked_in_slices():
    """With the memory of a few sequences, whatever their number."""
    lengths = np.arange(5 * SLICE // 2, dtype=np.int32) % 50
    pointers = np.append(0, lengths.cumsum(dtype=np.int64)[:-1]) * 4
    tracemalloc.start()
    assert end_of(lengths, pointers, 4) == 4 * lengths.sum(dtype=np.int64)
    assert tracemalloc.get_traced_memory()[1] < 5 * 8 * SLICE
    tracemalloc.stop()
    for place in (0, SLICE - 1, SLICE, len(lengths) - 1):
        wrong = pointers.copy()
        wrong[place] += 4
        assert end_of(lengths, wrong, 4) is None
    assert end_of(lengths[:0], pointers[:0], 4) == 0


def test_fairseq_misreads_them(tmp_path):
    """fairseq opens the files, and takes the tokens of each sequence from another place."""
    write_megatron(tmp_path / "m", TEXTS["lengths that fit"], 4, "int32")
    dataset = object.__new__(indexed_dataset.MMapIndexedDataset)
    indexed_dataset.MMapIndexedDataset._do_init.__wrapped__(dataset, str(tmp_path / "m"))
    assert dataset.sizes.tolist() == [3, 0, 1, 1] and os.path.getsize(tmp_path / "m.bin") == 4 * dataset.sizes.sum()
    with pytest.raises(ValueError):
        [*map(dataset.__getitem__, range(len(dataset)))]
