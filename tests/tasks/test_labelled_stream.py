"""Streams of the user's own text and labels: labels stand beside their tokens, and `_` has no loss."""

import shutil
import sys
from pathlib import Path

import pytest
import torch
from fairseq.logging.meters import AverageMeter
from task_options import options_of

from fairseq_plugins.errors import UserError
from fairseq_plugins.tasks.labelled_stream import LabelledStreamConfig, LabelledStreamTask

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests/goldens/algo_programs_3var"  # 20 programs and their labels, by the Feedback paper's code


@pytest.fixture(scope="session")
def data(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    for split in ("train", "valid"):
        shutil.copy(f"{PROGRAMS}.txt", folder / f"{split}.txt")
        shutil.copy(f"{PROGRAMS}.labels.txt", folder / f"{split}.labels")
    run(sys.executable, ROOT / "preprocess/labelled_text.py", "--raw", folder, "--out", folder)
    return folder / "bin"


def make(data, split="train", **options):
    options = {"data": str(data), "dataset_impl": None, "tokens_per_sample": 64, **options}
    task = LabelledStreamTask.setup_task(options_of(LabelledStreamConfig, **options))
    task.load_dataset(split)
    return task


def lines(name):
    return [line.split() for line in Path(f"{PROGRAMS}{name}").read_text().splitlines()]


@pytest.mark.parametrize("streams", [1, 3, 20])
def test_labels_stand_beside_their_tokens(data, streams):
    """As the paper's code reads them: no shift, no line ends, one stream after the other."""
    task = make(data)
    blocks = list(task.stream_iterator(task.dataset("train"), streams).next_epoch_itr())
    symbols, labels = ([sum(found, [])] for found in (lines(".txt"), lines(".labels.txt")))
    tokens, targets = (
        torch.cat(parts, dim=1)
        for parts in zip(*((block["net_input"]["src_tokens"], block["target"]) for block in blocks))
    )
    read = tokens != task.dictionary.pad()
    assert [task.dictionary[token] for token in tokens[read]] == symbols[0]
    pad = task.dictionary.pad()
    assert ["_" if target == pad else task.dictionary[target] for target in targets[read]] == labels[0]


def test_episodes_are_the_lines(data):
    dataset = make(data, "valid").dataset("valid")
    assert [*map(int, dataset.starts[1:] - dataset.starts[:-1])] == [*map(len, lines(".txt"))]


def test_several_files_of_a_split_are_joined(data, tmp_path):
    shutil.copytree(data, tmp_path / "bin")
    for suffix in ("bin", "idx", "labels.bin", "labels.idx"):
        shutil.copy(data / f"valid.{suffix}", tmp_path / f"bin/valid1.{suffix}")
    task, one = make(tmp_path / "bin"), make(data, "valid").dataset("valid")
    task.load_dataset("valid", combine=True)
    both = task.dataset("valid")
    assert [*both.tokens] == 2 * [*one.tokens] and [*both.labels] == 2 * [*one.labels] and len(both.starts) == 41
    task.load_dataset("valid1")
    assert [*task.dataset("valid1").labels] == [*one.labels]


def test_another_word_may_say_that_there_is_no_label(data):
    """A symbol that is in no dictionary leaves out nothing, unknown labels neither."""
    labelled = {
        word: int((make(data, omit_label=word).dataset("train").labels != 1).sum()) for word in ("_", "1", "none")
    }
    marks = sum(lines(".labels.txt"), [])
    assert labelled == {word: sum(mark != word for mark in marks) for word in labelled}


def test_what_cannot_be_read_is_refused(data, tmp_path):
    folder = tmp_path / "bin"
    shutil.copytree(data, folder)
    for suffix in ("bin", "idx"):
        (folder / f"valid.labels.{suffix}").unlink()
    with pytest.raises(UserError, match="valid.labels.idx does not exist; prepare text and labels with preprocess/lab"):
        make(folder, "valid")
    task = make(data)
    with pytest.raises(UserError, match="split train has 20 lines, fewer than its 24 streams; lower --batch-size"):
        task.stream_iterator(task.dataset("train"), 12, num_shards=2)
    with pytest.raises(UserError, match="no token of this validation has a label: raise --max-valid-steps"):
        task.post_validate(None, {}, {"nll_loss": AverageMeter()})


def test_labels_of_another_text_are_refused(run, data, tmp_path):
    shutil.copytree(data, tmp_path / "bin")
    (tmp_path / "short").write_text("x = 1 ;\n")
    run(
        "fairseq-preprocess", "--only-source", "--srcdict", data / "dict.txt", "--trainpref", tmp_path / "short",
        "--destdir", tmp_path / "other", "--workers", 1,
    )  # fmt: skip
    for suffix in ("bin", "idx"):
        shutil.copy(tmp_path / f"other/train.{suffix}", tmp_path / f"bin/train.labels.{suffix}")
    with pytest.raises(UserError, match="train.labels does not have as many tokens a line as .*train; prepare both"):
        make(tmp_path / "bin")
