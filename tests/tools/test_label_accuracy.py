"""The accuracy of labels, and its picture."""

import json
from argparse import Namespace

import numpy as np
import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import label_accuracy, position_accuracy
from fairseq_plugins.tools.label_accuracy import by_group, counted, summary
from fairseq_plugins.tools.lib.pictures import read_description

STARTS = np.array([0, 4, 10])
LABELLED = np.array([0, 1, 0, 1, 0, 1, 0, 0, 1, 0], dtype=bool)
RIGHT = np.array([0, 1, 0, 1, 0, 1, 0, 0, 0, 0], dtype=bool)


def test_labels_and_whole_episodes():
    metrics = summary(RIGHT, LABELLED, STARTS, bins=50)
    assert metrics["accuracy"] == 75 and metrics["labels"] == 4
    assert metrics["sequence_accuracy"] == 50 and metrics["episodes"] == 2
    assert metrics["by_position"] == [None, 100, None, 100, 0, None]
    assert metrics["labels_by_position"] == [0, 2, 0, 1, 1, 0] and metrics["span"] == 1


def test_some_episodes_by_themselves():
    metrics = counted(RIGHT, LABELLED, STARTS, [1])
    assert metrics == {"accuracy": 50, "sequence_accuracy": 0, "labels": 2, "episodes": 1}


def test_episodes_without_labels_do_not_count():
    labelled = np.array([False] * 4 + [True] * 6)
    metrics = counted(labelled, labelled, STARTS, [0, 1])
    assert metrics == {"accuracy": 100, "sequence_accuracy": 100, "labels": 6, "episodes": 1}
    none = counted(labelled, labelled, STARTS, [0])
    assert none == {"accuracy": None, "sequence_accuracy": None, "labels": 0, "episodes": 0}


def test_positions_are_put_together_where_there_are_many():
    metrics = summary(RIGHT, LABELLED, STARTS, bins=3)
    assert metrics["span"] == 2
    assert metrics["by_position"] == [100, 100, 0] and metrics["labels_by_position"] == [2, 1, 1]


def test_labels_of_each_group():
    """A group without labels is not named."""
    metrics = by_group(RIGHT, LABELLED, ["0", "1", "1", "1", "1", "2", "2", "2", "2", "3"])
    assert metrics == {"by_group": {"1": 100, "2": 50}, "labels_by_group": {"1": 2, "2": 2}}


@pytest.mark.parametrize("split, episodes, length", [
    ("train", "train_episodes", "train_length"),
    ("valid", "test_episodes", "train_length"),
    ("test", "test_episodes", "test_length"),
    ("test_long", "test_episodes", "test_length"),
])  # fmt: skip
def test_drawn_episodes_are_those_of_the_split(split, episodes, length):
    args = Namespace(split=split, episodes=3, length=50, data=None)
    assert label_accuracy.overrides(args) == {episodes: 3, length: 50}


def test_other_splits_are_refused(main):
    with pytest.raises(UserError, match="--split trian is not a split; choose train, valid"):
        main(label_accuracy, "model.pt", "--split", "trian")


SOUND = {"span": 1, "by_position": [50, None], "labels_by_position": [1, 0]}


@pytest.mark.parametrize("wrong", [
    "{}", "[1]", "half a", {"span": "a"}, {"by_position": ["x", 1]}, {"by_position": [500, 1]}, {"by_position": [1]},
    {"by_position": [], "labels_by_position": []},
])  # fmt: skip
def test_other_files_are_refused(wrong, tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps(SOUND))
    assert position_accuracy.read(file) == SOUND
    file.write_text(wrong if isinstance(wrong, str) else json.dumps(SOUND | wrong))
    with pytest.raises(UserError, match="a.json is not a file of tools/label_accuracy"):
        position_accuracy.read(file)


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(SOUND))
    with pytest.raises(UserError, match="there is another lstm=.*; give each NAME=FILE a name of its own"):
        position_accuracy.by_name([f"lstm={tmp_path / 'a.json'}"] * 2)
    with pytest.raises(UserError, match="does not have the form NAME=FILE"):
        position_accuracy.by_name(["a.json"])


def test_the_picture_leaves_out_positions_with_few_labels(tmp_path, main):
    pytest.importorskip("matplotlib")
    metrics = {"span": 10, "by_position": [90.0, None, 80.0, 0.0], "labels_by_position": [100, 0, 5, 4]}
    (tmp_path / "a.json").write_text(json.dumps(metrics))
    main(position_accuracy, f"a={tmp_path / 'a.json'}", "--out", tmp_path / "a.png")
    words = "labels right, % over position in the episode, tokens. a from 90 to 80."
    assert read_description(tmp_path / "a.png") == words
