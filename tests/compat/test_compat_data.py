"""Each patch of fairseq_plugins.compat.data, against fairseq's own function, which shows the fault.

A patched function keeps fairseq's as ``__wrapped__``. What only shows in whole commands is in cli/.
"""

import inspect
import multiprocessing
import os
import signal
import types

import fairseq.data.dictionary
import numpy as np
import pytest
import torch
from fairseq import binarizer
from fairseq.data import ConcatDataset, Dictionary, ListDataset, data_utils, indexed_dataset
from fairseq.data.token_block_dataset import TokenBlockDataset

from fairseq_plugins.compat import data
from fairseq_plugins.errors import UserError


@pytest.mark.parametrize("lines", [1, 5, 8, 13, 60])
def test_every_sentence_is_in_a_batch(lines):
    order = np.random.RandomState(lines).permutation(lines)
    batches = data_utils.batch_by_size(order, None, np.full(lines, 6), max_tokens=100, required_batch_size_multiple=8)
    assert np.concatenate(batches).tolist() == order.tolist()
    assert all(len(batch) * 6 <= 100 for batch in batches)


def test_fairseq_drops_the_last_batch():
    batches = data_utils.batch_by_size.__wrapped__(
        np.arange(60), None, np.full(60, 6), max_tokens=100, required_batch_size_multiple=8
    )
    assert sum(map(len, batches)) == 56


def test_no_sentences_make_no_batches():
    assert data_utils.batch_by_size([], None, np.zeros(0), max_tokens=100, required_batch_size_multiple=8) == []


@pytest.mark.parametrize("module", [binarizer, fairseq.data.dictionary])
def test_workers_leave_interrupts_to_the_first_process(module):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as Python begins; pytest-xdist changes it

    def handler(pool):
        with pool(1) as workers:
            return workers.apply(signal.getsignal, (signal.SIGINT,))

    assert handler(multiprocessing.Pool) is signal.default_int_handler  # fairseq's own
    assert handler(module.Pool) is signal.SIG_IGN


def blocks_of_sentences():
    sentences = [torch.tensor([4, 5, 2]), torch.tensor([6, 2])]
    return TokenBlockDataset(sentences, [3, 2], block_size=None, pad=1, eos=2, break_mode="eos")


def test_a_task_may_have_no_data_folder(tmp_path):
    dataset = types.SimpleNamespace(
        ignore_unused_valid_subsets=False, combine_valid_subsets=False, disable_validation=False, valid_subset="valid"
    )
    look = data_utils.raise_if_valid_subsets_unintentionally_ignored
    cfg = types.SimpleNamespace(dataset=dataset, task=types.SimpleNamespace(data=""))
    look(cfg)
    with pytest.raises(FileNotFoundError):
        look.__wrapped__(cfg)
    cfg.task.data = str(tmp_path)
    (tmp_path / "valid1.bin").touch()
    with pytest.raises(ValueError, match="valid1"):
        look(cfg)


def two_sets(upsample_primary):
    """What the translation task makes of ``train``, of 3 sentences, and ``train1``, of 2."""
    sets = [ListDataset([[4], [5], [6]], sizes=np.array([1, 1, 1])), ListDataset([[7], [8]], sizes=np.array([1, 1]))]
    return ConcatDataset(sets, [upsample_primary, 1])


@pytest.mark.parametrize("copies, expected", [(-1, "45678"), (1, "45678"), (2, "45645678")])
def test_the_second_training_set_joins_the_first(copies, expected):
    both = two_sets(copies)
    assert "".join(str(both[number][0]) for number in range(len(both))) == expected and len(both.sizes) == len(expected)


def test_fairseq_takes_the_first_set_minus_once(monkeypatch):
    monkeypatch.setattr(ConcatDataset, "__init__", ConcatDataset.__init__.__wrapped__)
    with pytest.raises(ValueError, match="negative dimensions"):
        assert two_sets(-1).sizes


def test_numpy_compat(monkeypatch):
    assert [len(block) for block in blocks_of_sentences()] == [3, 2]
    monkeypatch.delattr(np, "compat")
    with pytest.raises(AttributeError, match="compat"):
        blocks_of_sentences()
    data.restore_np_compat()
    assert [len(block) for block in blocks_of_sentences()] == [3, 2]


def test_batch_buckets(monkeypatch):
    assert data_utils.get_buckets(np.arange(1, 101), 4).tolist() == [25, 50, 75, 100]
    assert np.percentile([0, 10], 50) == 5
    if hasattr(np.percentile, "__wrapped__"):
        monkeypatch.setattr(np, "percentile", np.percentile.__wrapped__)
        with pytest.raises(TypeError, match="interpolation"):
            data_utils.get_buckets(np.arange(1, 101), 4)


STOPPED_WHILE_READING = """
import torch
from fairseq.data.iterators import BufferedIterator

class Batches:
    def __len__(self):
        return 1000

    def __iter__(self):
        while True:
            yield torch.ones(200, 200) @ torch.ones(200, 200)

next(BufferedIterator(1000, Batches()))
"""


@pytest.mark.parametrize("plugin, status", [("import fairseq_plugins", 0), ("", -signal.SIGABRT)])
def test_the_end_of_a_process_that_still_reads(plugin, status, run):
    assert run("python", "-c", plugin + STOPPED_WHILE_READING, check=False).returncode == status


@pytest.fixture
def sentences(tmp_path):
    """A binarised file of 20 sentences of 5 tokens, and a dictionary for it."""
    dictionary = Dictionary()
    for letter in "abcdefgh":
        dictionary.add_symbol(letter)
    builder = indexed_dataset.make_builder(str(tmp_path / "train.bin"), "mmap", len(dictionary))
    for start in range(20):
        builder.add_item(torch.arange(start, start + 5) % 8 + 4)
    builder.finalize(str(tmp_path / "train.idx"))
    return tmp_path / "train", dictionary


def load(sentences):
    path, dictionary = sentences
    return data_utils.load_indexed_dataset(str(path), dictionary)


def test_whole_data_is_loaded(sentences):
    assert load(sentences)[3].tolist() == [7, 8, 9, 10, 11]


@pytest.mark.parametrize("suffix, size", [("bin", 0), ("bin", 150), ("idx", 0), ("idx", 3), ("idx", 12), ("idx", 100)])
def test_truncated_data_is_refused(sentences, suffix, size):
    file = sentences[0].with_suffix(f".{suffix}")
    os.truncate(file, size)
    with pytest.raises(UserError, match=str(file)):
        load(sentences)


@pytest.mark.parametrize("suffix", ["bin", "idx"])
def test_half_of_the_data_is_refused(sentences, suffix):
    file = sentences[0].with_suffix(f".{suffix}")
    file.unlink()
    with pytest.raises(UserError, match=f"{file} is missing beside train"):
        load(sentences)


@pytest.mark.parametrize("lines", [[], [[]]])
def test_an_empty_text_is_told_apart(lines, tmp_path):
    """fairseq cannot map an empty file."""
    builder = indexed_dataset.make_builder(str(tmp_path / "train.bin"), "mmap", 9)
    for line in lines:
        builder.add_item(torch.tensor(line, dtype=torch.long))
    builder.finalize(str(tmp_path / "train.idx"))
    words = "is damaged" if lines else "holds no sentence: give fairseq-preprocess a text"
    with pytest.raises(UserError, match=words):
        data_utils.load_indexed_dataset(str(tmp_path / "train"))


def test_fairseq_maps_truncated_data(sentences):
    os.truncate(sentences[0].with_suffix(".bin"), 150)
    dataset = object.__new__(indexed_dataset.MMapIndexedDataset)
    indexed_dataset.MMapIndexedDataset._do_init.__wrapped__(dataset, str(sentences[0]))
    assert len(dataset) == 20
    with pytest.raises(ValueError):
        dataset[19]


def test_another_dictionary_is_refused(sentences):
    path, _ = sentences
    smaller = Dictionary()
    smaller.add_symbol("a")
    with pytest.raises(UserError, match="token 11 but the dictionary has 5"):
        load((path, smaller))
    assert inspect.unwrap(data_utils.load_indexed_dataset)(str(path), smaller) is not None


def test_joined_parts_may_be_long(sentences, monkeypatch):
    """Bytes are counted in the type of the first sizes, which fairseq takes from the index of a part."""
    path, _ = sentences
    pointers = indexed_dataset.MMapIndexedDataset.Index.writer(path, np.uint16)._get_pointers
    with pytest.warns(RuntimeWarning, match="overflow"):
        assert min(pointers([np.int32(2**30)] * 3)) < 0
    assert pointers([2**30] * 3) == [0, 2**31, 2**32]
    for patched, kind in (True, int), (False, np.int32):
        builder = indexed_dataset.make_builder(f"{path}.joined", "mmap", 12)
        if not patched:
            builder_class = indexed_dataset.MMapIndexedDatasetBuilder
            monkeypatch.setattr(builder_class, "merge_file_", builder_class.merge_file_.__wrapped__)
        builder.merge_file_(str(path))
        assert {*map(type, builder._sizes)} == {kind}
