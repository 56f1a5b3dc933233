"""The patches of compat/advice.py. Whole commands are in cli/test_ways_out.py."""

import types

import numpy as np
import pytest
from fairseq.data import ListDataset, data_utils, indexed_dataset
from fairseq.tasks import FairseqTask
from fakes import binarise, dictionary_of

from fairseq_plugins.compat import advice
from fairseq_plugins.errors import UserError

ABC = dictionary_of("abc")


class Lines(ListDataset):
    """A data set of one text or of pairs, with these sizes."""

    def __init__(self, sizes):
        super().__init__(sizes, np.array(sizes))

    def size(self, number):
        return tuple(self.sizes[number]) if self.sizes.ndim > 1 else self.sizes[number]

    def filter_indices_by_size(self, indices, limits):
        too_long = [bool((self.sizes[number] > np.array(limits)).any()) for number in indices]
        return [n for n, out in zip(indices, too_long) if not out], [n for n, out in zip(indices, too_long) if out]


@pytest.mark.parametrize(
    "sizes, limits, options, advised",
    [
        ([[9, 3], [4, 8], [2, 2]], (5, 5), {}, "max_source_positions=9, max_target_positions=8"),
        ([[2, 3], [4, 8], [2, 2]], (5, 5), {}, "max_source_positions=5, max_target_positions=8"),
        ([9, 3], 5, {"tokens_per_sample": 5}, "tokens_per_sample=9"),
        ([9, 3], 5, {"tokens_per_sample": 5, "max_target_positions": 5}, "max_target_positions=9"),
        ([9, 3], 5, {"max_positions": 5}, "max_positions=9"),
    ],
)
def test_what_is_too_long_says_the_numbers_that_fit(sizes, limits, options, advised, monkeypatch):
    monkeypatch.setattr(advice.ASKED, "command", None)
    task = FairseqTask(types.SimpleNamespace(**options))
    with pytest.raises(UserError, match=f"load the model with {advised}, or leave such sentences out"):
        task.filter_indices_by_size([*range(len(sizes))], Lines(sizes), limits)
    with pytest.raises(Exception, match="skip this example"):
        FairseqTask.filter_indices_by_size.__wrapped__(task, [*range(len(sizes))], Lines(sizes), limits)
    assert len(task.filter_indices_by_size([*range(len(sizes))], Lines(sizes), limits, True)) < len(sizes)


def test_the_advice_is_for_the_command():
    needed = {"max_source_positions": 9}
    assert advice.how_to_raise("train", needed) == "give --max-source-positions 9"
    assert advice.how_to_raise("generate", needed) == (
        "give --max-source-positions 9 --model-overrides \"{'max_source_positions': 9}\""
    )


@pytest.fixture
def binarised(tmp_path):
    for form in ("mmap", "cached"):
        binarise(tmp_path / form, [[4, 5, 2]], form)
    (tmp_path / "raw").write_text("a b\n")
    return tmp_path


@pytest.mark.parametrize("form", ["mmap", "cached", "raw"])
@pytest.mark.parametrize("asked", [None, "mmap", "cached", "lazy", "raw", "fasta", "huffman"])
def test_another_form_is_named(form, asked, binarised):
    path, same = str(binarised / form), asked == form or {asked, form} == {"cached", "lazy"}
    if same or (asked is None and form != "raw"):
        assert indexed_dataset.dataset_exists(path, asked)
        assert data_utils.load_indexed_dataset(path, ABC, asked).sizes.tolist() == [3]
        return
    words = "give --dataset-impl raw" if form == "raw" else "leave --dataset-impl out"
    with pytest.raises(UserError, match=words):
        indexed_dataset.dataset_exists(path, asked)
    if asked is None:  # a language model's data are found
        assert len(data_utils.load_indexed_dataset(path, ABC)) == 1
    else:
        with pytest.raises(UserError, match=words):
            data_utils.load_indexed_dataset(path, ABC, asked)


def test_fairseq_does_not_find_another_form(binarised):
    assert not indexed_dataset.dataset_exists.__wrapped__(str(binarised / "mmap"), "raw")
    assert indexed_dataset.dataset_exists.__wrapped__(str(binarised / "mmap"), "lazy")  # and fails when it opens it


def test_text_of_a_language_model_is_found(tmp_path):
    (tmp_path / "train.None-None").write_text("a b\nc\n")  # as fairseq-preprocess names it
    path, raw = str(tmp_path / "train"), indexed_dataset.IndexedRawTextDataset
    assert not raw.exists.__wrapped__(path)
    for asked in ("raw", None):
        assert [*map(len, data_utils.load_indexed_dataset(path, ABC, asked))] == [3, 2]
    (tmp_path / "train").write_text("a\n")
    assert len(data_utils.load_indexed_dataset(path, ABC)) == 1
