"""Figures of labels, and their picture."""

import json
import sys

import numpy as np
import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import label_accuracy, position_accuracy
from fairseq_plugins.tools.label_accuracy import by_group, counted, summary

STARTS = np.array([0, 4, 10])
LABELLED = np.array([0, 1, 0, 1, 0, 1, 0, 0, 1, 0], dtype=bool)
RIGHT = np.array([0, 1, 0, 1, 0, 1, 0, 0, 0, 0], dtype=bool)


def test_labels_and_whole_episodes():
    figures = summary(RIGHT, LABELLED, STARTS, bins=50)
    assert figures["accuracy"] == 75 and figures["labels"] == 4
    assert figures["sequence_accuracy"] == 50 and figures["episodes"] == 2
    assert figures["by_position"] == [None, 100, None, 100, 0, None]
    assert figures["labels_by_position"] == [0, 2, 0, 1, 1, 0] and figures["span"] == 1


def test_some_episodes_by_themselves():
    figures = counted(RIGHT, LABELLED, STARTS, [1])
    assert figures == {"accuracy": 50, "sequence_accuracy": 0, "labels": 2, "episodes": 1}


def test_episodes_without_labels_do_not_count():
    labelled = np.array([False] * 4 + [True] * 6)
    figures = counted(labelled, labelled, STARTS, [0, 1])
    assert figures == {"accuracy": 100, "sequence_accuracy": 100, "labels": 6, "episodes": 1}
    none = counted(labelled, labelled, STARTS, [0])
    assert none == {"accuracy": None, "sequence_accuracy": None, "labels": 0, "episodes": 0}


def test_positions_are_put_together_where_there_are_many():
    figures = summary(RIGHT, LABELLED, STARTS, bins=3)
    assert figures["span"] == 2
    assert figures["by_position"] == [100, 100, 0] and figures["labels_by_position"] == [2, 1, 1]


def test_labels_of_each_group():
    """A group without labels is not named."""
    figures = by_group(RIGHT, LABELLED, ["0", "1", "1", "1", "1", "2", "2", "2", "2", "3"])
    assert figures == {"by_group": {"1": 100, "2": 50}, "labels_by_group": {"1": 2, "2": 2}}


def parse(monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["label_accuracy", "model.pt", *options])
    return label_accuracy.parse()


@pytest.mark.parametrize("split, episodes, length", [
    ("train", "train_episodes", "train_length"),
    ("valid", "test_episodes", "train_length"),
    ("test", "test_episodes", "test_length"),
    ("test_long", "test_episodes", "test_length"),
])  # fmt: skip
def test_what_is_drawn_otherwise_is_of_the_split(split, episodes, length, monkeypatch):
    args = parse(monkeypatch, "--split", split, "--episodes", "3", "--length", "50")
    assert label_accuracy.overrides(args) == {episodes: 3, length: 50}


@pytest.mark.parametrize("option, value, words", [
    ("--split", "trian", "--split trian is not a split; choose train, valid"),
    ("--episodes", "0", "--episodes: 0 does not fit; give a whole number of at least 1"),
    ("--length", "0", "--length: 0 does not fit"),
    ("--bins", "0", "--bins: 0 does not fit"),
])  # fmt: skip
def test_what_cannot_be_scored_is_refused(option, value, words, monkeypatch, capsys):
    with pytest.raises((UserError, SystemExit)) as refused:
        parse(monkeypatch, option, value)
    assert words in f"{refused.value}{capsys.readouterr().err}"


def test_the_picture(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    (tmp_path / "a.json").write_text(json.dumps(summary(RIGHT, LABELLED, STARTS, bins=50)))
    command = ["position_accuracy", f"a={tmp_path / 'a.json'}", "--out", str(tmp_path / "a.png")]
    monkeypatch.setattr(sys, "argv", command)
    position_accuracy.main()
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_positions_with_few_labels_are_left_out():
    figures = {"span": 10, "by_position": [90.0, None, 80.0, 0.0], "labels_by_position": [100, 0, 5, 4]}
    assert position_accuracy.points(figures) == [(0, 90.0), (20, 80.0)]


@pytest.mark.parametrize(
    "content",
    [
        "{}",
        "[1]",
        "half a",
        '{"span": 1, "by_position": ["x"], "labels_by_position": [1]}',
        '{"span": 1, "by_position": [500], "labels_by_position": [1]}',
        '{"span": 1, "by_position": [50, 60], "labels_by_position": [1]}',
        '{"span": 1, "by_position": [], "labels_by_position": []}',
        '{"span": "a", "by_position": [50], "labels_by_position": [1]}',
    ],
)
def test_what_is_no_such_file_is_named(content, tmp_path):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UserError, match="a.json is not a file of tools/label_accuracy"):
        position_accuracy.read(tmp_path / "a.json")
    with pytest.raises(UserError, match="does not have the form NAME=FILE"):
        position_accuracy.by_name(["a.json"])


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"span": 1, "by_position": [50], "labels_by_position": [1]}')
    with pytest.raises(UserError, match="there is another lstm; give each run a name of its own"):
        position_accuracy.by_name([f"lstm={tmp_path / 'a.json'}"] * 2)
