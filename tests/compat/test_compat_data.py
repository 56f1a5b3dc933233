"""The patches of compat/data.py."""

import multiprocessing
import os
import signal
import types

import fairseq.data.dictionary
import numpy as np
import pytest
import torch
from fairseq import binarizer
from fairseq.data import ConcatDataset, ListDataset, data_utils, indexed_dataset
from fairseq.data.token_block_dataset import TokenBlockDataset
from fakes import binarise, dictionary_of, fairseqs

from fairseq_plugins.compat import data
from fairseq_plugins.errors import UserError


@pytest.mark.parametrize("lines", [0, 1, 5, 8, 13, 60])
def test_every_sentence_is_in_a_batch(lines):
    order, options = np.random.RandomState(lines).permutation(lines), {"required_batch_size_multiple": 8}
    batches = data_utils.batch_by_size([*order], None, np.full(lines, 6), max_tokens=100, **options)
    assert [number for batch in batches for number in batch] == order.tolist()
    assert all(len(batch) * 6 <= 100 for batch in batches)
    if lines == 60:
        assert sum(map(len, fairseqs(data_utils.batch_by_size)(order, None, np.full(60, 6), 100, **options))) == 56


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


def test_the_second_training_set_joins_the_first(monkeypatch):
    for copies, expected in ((-1, "45678"), (1, "45678"), (2, "45645678")):
        both = two_sets(copies)
        assert "".join(str(both[number][0]) for number in range(len(both))) == expected
        assert len(both.sizes) == len(expected)
    monkeypatch.setattr(ConcatDataset, "__init__", fairseqs(ConcatDataset.__init__))
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
    binarise(tmp_path / "train", [[(start + place) % 8 + 4 for place in range(5)] for start in range(20)])
    return tmp_path / "train", dictionary_of("abcdefgh")


def load(sentences):
    path, dictionary = sentences
    return data_utils.load_indexed_dataset(str(path), dictionary)


@pytest.mark.parametrize("suffix, size", [("bin", 0), ("bin", 150), ("idx", 0), ("idx", 3), ("idx", 12), ("idx", 100)])
def test_truncated_data_is_refused(sentences, suffix, size):
    file = sentences[0].with_suffix(f".{suffix}")
    assert load(sentences)[3].tolist() == [7, 8, 9, 10, 11]
    os.truncate(file, size)
    with pytest.raises(UserError, match=str(file)):
        load(sentences)
    if (suffix, size) == ("bin", 150):  # fairseq maps it
        dataset = object.__new__(indexed_dataset.MMapIndexedDataset)
        fairseqs(indexed_dataset.MMapIndexedDataset._do_init)(dataset, str(sentences[0]))
        assert len(dataset) == 20
        with pytest.raises(ValueError):
            dataset[19]


@pytest.mark.parametrize("suffix", ["bin", "idx"])
def test_half_of_the_data_is_refused(sentences, suffix):
    file = sentences[0].with_suffix(f".{suffix}")
    file.unlink()
    with pytest.raises(UserError, match=f"{file} is missing beside train"):
        load(sentences)


@pytest.mark.parametrize("lines", [[], [[]]])
def test_an_empty_text_is_told_apart(lines, tmp_path):
    """fairseq cannot map an empty file."""
    binarise(tmp_path / "train", lines)
    words = "is damaged" if lines else "holds no sentence: give fairseq-preprocess a text"
    with pytest.raises(UserError, match=words):
        data_utils.load_indexed_dataset(str(tmp_path / "train"))


def test_another_dictionary_is_refused(sentences):
    path, _ = sentences
    smaller = dictionary_of("a")
    with pytest.raises(UserError, match="token 11 but the dictionary has 5"):
        load((path, smaller))
    assert fairseqs(data_utils.load_indexed_dataset)(str(path), smaller) is not None


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
