"""Streams of labelled episodes: inputs, targets, and that streams hold whole episodes."""

from random import Random
from types import SimpleNamespace

import pytest
import torch
from task_options import options_of

from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.iterator import check_facts
from fairseq_plugins.synthetic.synthetic_stream import KINDS, SyntheticStreamConfig, SyntheticStreamTask

FEW = {"train_episodes": 10, "test_episodes": 6, "train_length": 7, "test_length": 12}


def make(kind="random-walk", splits=("train", "valid", "test"), **options):
    options = {"tokens_per_sample": 16, "kind": kind, **FEW, **options}
    task = SyntheticStreamTask.setup_task(options_of(SyntheticStreamConfig, **options))
    for split in splits:
        task.load_dataset(split)
    return task


def rows(task, split, streams, **options):
    """The streams, each as pairs of a token and its label."""
    blocks = list(task.stream_iterator(task.dataset(split), streams, **options).next_epoch_itr())
    words = task.dictionary.symbols
    tokens = torch.cat([block["net_input"]["src_tokens"] for block in blocks], dim=1).tolist()
    labels = torch.cat([block["target"] for block in blocks], dim=1).tolist()
    pad = task.dictionary.pad()
    return [
        [(words[token], None if label == pad else words[label]) for token, label in zip(*pair) if token != pad]
        for pair in zip(tokens, labels)
    ]


def expected(kind, split, episodes, length, seed=1):
    random = Random(f"{seed} {split}")
    return [list(zip(*KINDS[kind].draw(random, length))) for _ in range(episodes)]


@pytest.mark.parametrize("kind", KINDS)
def test_labels_stand_beside_their_tokens(kind):
    task = make(kind)
    for split, episodes, length in (("train", 10, 7), ("valid", 6, 7), ("test", 6, 12)):
        (stream,) = rows(task, split, 1)
        assert stream == sum(expected(kind, split, episodes, length), [])


def test_lengths_are_the_papers_unless_given():
    task = make("reverse", splits=(), train_length=None, test_length=None)
    assert [task.length(split) for split in ("train", "valid", "test", "test1")] == [40, 40, 400, 400]


@pytest.mark.parametrize("streams", [2, 3, 4])
def test_streams_hold_whole_episodes_each_once(streams):
    task = make("programs-3")
    given = rows(task, "train", streams)
    assert all(stream[-1] == ("END", None) for stream in given)
    assert sum(given, []) == sum(expected("programs-3", "train", 10, 7), [])


def test_training_streams_may_be_rotated():
    task = make("copy", stream_offset="random")
    (plain,), (rotated,) = rows(task, "train", 1), rows(task, "train", 1, training=True)
    assert rotated != plain
    assert rotated in [plain[start:] + plain[:start] for start in range(len(plain))]


def test_the_seed_of_the_data_is_not_that_of_the_training():
    assert rows(make(seed=2), "train", 1) == rows(make(), "train", 1) != rows(make(data_seed=2), "train", 1)


def test_the_checksum_is_of_the_labels_too():
    """So that a resumed training is on the same data."""
    task = make()
    dataset, before = task.dataset("train"), task.dataset("train").checksum
    del dataset.checksum
    dataset.labels[1] += 1
    assert dataset.checksum != before


@pytest.mark.parametrize("options, words", [
    ({"data": "data/bin"}, "leave out the data folder"),
    ({"no_end_of_line": True}, "leave out --no-end-of-line"),
    ({"no_first_target": True}, "leave out --no-first-target"),
    ({"sample_break_mode": "eos"}, "leave out --sample-break-mode"),
    ({"train_episodes": 0}, "--train-episodes 0 does not fit"),
    ({"test_length": -3}, "--test-length -3 does not fit"),
    ({"tokens_per_sample": 0}, "--tokens-per-sample 0"),
])  # fmt: skip
def test_flags_without_meaning_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        make(**options)


def test_what_would_score_every_token_is_refused():
    task = make()
    with pytest.raises(UserError, match="--criterion label_cross_entropy"):
        task.build_criterion(SimpleNamespace(_name="streaming_lm"))
    with pytest.raises(UserError, match="fairseq-validate"):
        task.eval_lm_dataloader(task.dataset("test"), batch_size=1)
    with pytest.raises(UserError, match="fairseq-validate"):
        task.inference_step(None, [], {})


def test_a_split_without_labels_is_refused():
    with pytest.raises(UserError, match="split train has a label: choose longer episodes .--train-length"):
        make("programs-3", ["train"], train_length=1, train_episodes=3)


@pytest.mark.parametrize("changed, flag", [
    ({"kind": "reverse"}, "--kind"),
    ({"train_length": 8}, "--train-length"),
    ({"train_episodes": 3}, "--train-episodes"),
    ({"data_seed": 2}, "--data-seed"),
])  # fmt: skip
def test_facts_name_the_flag_that_has_changed(changed, flag):
    def facts(**options):
        return make(**{"kind": "copy", "splits": ["train"]} | options).dataset("train").facts

    with pytest.raises(UserError, match=f"from the middle of an epoch with {flag} "):
        check_facts(facts(), facts(**changed), "begin anew")
    check_facts(facts(), facts(), "begin anew")
