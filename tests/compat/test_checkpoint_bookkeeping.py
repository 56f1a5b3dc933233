"""Which files have to be there after 8 saves: for every flag that keeps, names, finds and deletes checkpoints.

A save after every second update, an epoch of four: updates 2, 4 (an epoch's end), 6, 8 (an end), ... 16.
"""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fakes import Epochs, Trainer, fairseqs

from fairseq_plugins.compat import bookkeeping
from fairseq_plugins.compat.patch import training_module
from fairseq_plugins.errors import UserError
from fairseq_plugins.files import sealed, whole
from fairseq_plugins.streams.checkpoint import StreamCheckpoints
from fairseq_plugins.tools import average_checkpoints

SAVES = range(2, 17, 2)
RISING, FALLING, EQUAL = [1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1], [3.5] * 8
METRICS = {
    "rising": RISING,
    "falling": FALLING,
    "equal": EQUAL,
    "negative": [-1, -4.25, -2, -3, -2, -8, -0.5, -7],
    "around zero": [-0.001, 0, 0.001, -0.0, 0.002, -0.002, 0, -0.001],
    "close": [2.00001, 2.00004, 2.00002, 2.00003, 2.0, 1.99999, 2.00005, 2.00001],
    "tiny": [1e-05, 3e-05, 1e-07, 2e-05, 1e-300, 5e-05, 4e-05, 1e-06],
    "huge": [1e300, 2e17, 1e16, 3e300, 123456789.125, 1e18, 5e200, 9e15],
    "infinite": [math.inf, -math.inf, 1, math.inf, 2, -math.inf, 0, 3],
    "not numbers": [math.nan, 2, math.nan, 1, 3, math.nan, math.nan, 2],
    "not validated": [None, 2, None, 1, 3, None, None, 2],
}
EPOCHS = {f"checkpoint{epoch}" for epoch in range(1, 5)}
UPDATES = {f"checkpoint_{(update + 3) // 4}_{update}" for update in SAVES}
LAST, BEST = {"checkpoint_last"}, {"checkpoint_best"}


@pytest.fixture(autouse=True)
def no_best_before(monkeypatch):
    for module in (sealed, whole):
        monkeypatch.setattr(module, "flush", lambda path: None)  # to the disk, which takes the time
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    yield
    vars(checkpoint_utils.save_checkpoint).pop("best", None)


def save_all(folder: Path, values=FALLING, saves=SAVES, save=None, task=None, **flags) -> set[str]:
    """The names, without .pt, of what is in the folder after the saves."""
    trainer = Trainer(task=task, checkpoint_suffix=flags.get("checkpoint_suffix", ""))
    cfg = CheckpointConfig(save_dir=str(folder), **{"best_checkpoint_metric": "score", **flags})
    for trainer.updates, value in zip(saves, values):
        (save or checkpoint_utils.save_checkpoint)(cfg, trainer, Epochs(trainer.updates), value)
    return {path.name.removesuffix(".pt") for path in folder.glob("*")}


def updates_of(folder: Path, names) -> list[int]:
    """After which updates the checkpoints were written."""
    return sorted(torch.load(folder / f"{name}.pt")["updates"] for name in names)


def the_best(values, number: int, maximize: bool) -> list[int]:
    """After which updates the best were written, by the slow way; of equal ones the later are better."""
    valid = [(value, update) for value, update in zip(values, SAVES) if value is not None and not math.isnan(value)]
    ranked = sorted(valid, key=lambda one: (one[0] if maximize else -one[0], one[1]), reverse=True)
    return sorted(update for _, update in ranked[:number])


FLAGS = [  # flags, the files that have to be there
    ({}, EPOCHS | BEST | LAST),
    ({"save_interval": 2}, {"checkpoint2", "checkpoint4"} | BEST | LAST),
    ({"no_epoch_checkpoints": True}, BEST | LAST),
    ({"no_last_checkpoints": True}, EPOCHS | BEST),
    ({"no_save": True}, set()),
    ({"keep_last_epochs": 2}, {"checkpoint3", "checkpoint4"} | BEST | LAST),
    ({"keep_last_epochs": 1, "save_interval": 2}, {"checkpoint4"} | BEST | LAST),
    ({"save_interval_updates": 2}, EPOCHS | UPDATES | BEST | LAST),
    ({"save_interval_updates": 4}, EPOCHS | {f"checkpoint_{n}_{4 * n}" for n in (1, 2, 3, 4)} | BEST | LAST),
    ({"save_interval_updates": 2, "no_epoch_checkpoints": True}, UPDATES | BEST | LAST),
    ({"save_interval_updates": 2, "no_epoch_checkpoints": True, "no_last_checkpoints": True}, UPDATES | BEST),
    ({"save_interval_updates": 2, "save_interval": 3}, {"checkpoint3"} | UPDATES | BEST | LAST),
    (
        {"save_interval_updates": 2, "keep_interval_updates": 3},
        EPOCHS | {"checkpoint_3_12", "checkpoint_4_14", "checkpoint_4_16"} | BEST | LAST,
    ),
    (
        {"save_interval_updates": 2, "keep_interval_updates": 1, "keep_interval_updates_pattern": 6},
        EPOCHS | {"checkpoint_2_6", "checkpoint_3_12", "checkpoint_4_16"} | BEST | LAST,
    ),
    (
        {"save_interval_updates": 2, "keep_interval_updates": 2, "keep_last_epochs": 1},
        {"checkpoint4", "checkpoint_4_14", "checkpoint_4_16"} | BEST | LAST,
    ),
    (
        {"keep_best_checkpoints": 2, "no_epoch_checkpoints": True},
        {"checkpoint.best_score_1.000_16", "checkpoint.best_score_2.000_14"} | BEST | LAST,
    ),
    ({"keep_best_checkpoints": 1, "no_last_checkpoints": True}, EPOCHS | BEST | {"checkpoint.best_score_1.000_16"}),
]


@pytest.mark.parametrize("flags, there", FLAGS)
@pytest.mark.parametrize("suffix", ["", "_a.b"])
def test_the_files_of_every_flag(flags, there, suffix, tmp_path):
    """Each has its memory beside it, and a memory without its checkpoint is gone."""
    part = SimpleNamespace(state_dict=dict, end_if_reached=lambda trainer: None)
    task = StreamCheckpoints(SimpleNamespace(memory_in_checkpoint="full"), part, part, part)
    saved = save_all(tmp_path, task=task, checkpoint_suffix=suffix, **flags)
    there = {f"{name}{suffix}" for name in there}
    memories = {f"{name}.pt.memory-0-of-1" for name in there} | {"newest.memory-0-of-1"} if there else set()
    assert saved == there | memories


def test_each_file_is_of_the_update_of_its_name(tmp_path):
    flags = {"save_interval_updates": 2, "keep_best_checkpoints": 3}
    for name in save_all(tmp_path, METRICS["close"], **flags):
        (updates,) = updates_of(tmp_path, [name])
        numbers = re.findall(r"\d+$", name)
        right = {"checkpoint_last": 16, "checkpoint_best": 12}.get(name) or int(numbers[0])
        assert updates == (4 * right if re.fullmatch(r"checkpoint\d", name) else right)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("number", [1, 2, 8])
@pytest.mark.parametrize("values", METRICS.values(), ids=METRICS)
def test_the_best_are_there(values, number, maximize, tmp_path):
    """Of all saves; those that are no better than others are there as long as there is room. A training that is killed
    and repeats a save changes nothing, and neither does one that goes on from the files."""
    flags = {"keep_best_checkpoints": number, "maximize_best_checkpoint_metric": maximize, "no_epoch_checkpoints": True}
    save_all(tmp_path, values[:5], **flags)
    there = save_all(tmp_path, values[4:], SAVES[4:], **flags)
    best = the_best(values, number, maximize)
    kept = {name for name in there if name.startswith("checkpoint.best_score_")}
    assert updates_of(tmp_path, kept) == best and there == kept | BEST | LAST
    assert updates_of(tmp_path, BEST) == the_best(values, 1, maximize)


def test_what_fairseq_itself_keeps(tmp_path, monkeypatch):
    """The faults, in fairseq's own function."""
    save = fairseqs(checkpoint_utils.save_checkpoint)

    def kept(values, number=2, **flags):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        vars(checkpoint_utils.save_checkpoint).pop("best", None)
        there = save_all(folder, values, save=save, keep_best_checkpoints=number, **flags)
        return updates_of(folder, [name for name in there if name.startswith("checkpoint.best_")])

    assert kept(FALLING) == [14, 16], "where nothing is wrong"
    assert len(kept(METRICS["negative"])) > 2, "it never deletes them"
    assert kept(RISING) == [2], "one, where there is room for two"
    assert kept(METRICS["tiny"]) != the_best(METRICS["tiny"], 2, False)
    with pytest.raises(ValueError, match="could not convert string to float"):
        kept(FALLING, checkpoint_suffix="_a")
    with monkeypatch.context() as patch, pytest.raises(UserError, match="File name too long"):
        patch.setattr(sealed, "PAUSE", 0)
        kept(METRICS["huge"])
    there = save_all(tmp_path / "ends", save=save, save_interval_updates=2)
    assert UPDATES - there == {f"checkpoint_{n}_{4 * n}" for n in (1, 2, 3, 4)}
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    save_all(tmp_path / "nan", METRICS["not numbers"], save=save)
    assert updates_of(tmp_path / "nan", BEST) == [16] != the_best(METRICS["not numbers"], 1, False), "nan forgets 1"


def test_files_of_fairseqs_own_names_are_among_the_best(tmp_path):
    """A training that fairseq alone began, with a digit at random behind the three decimals."""
    names = {"checkpoint.best_score_1.5001", "checkpoint.best_score_4.0000", "checkpoint.best_other_0.1000"}
    for name in names:
        (tmp_path / f"{name}.pt").touch()
    there = save_all(tmp_path, [3], keep_best_checkpoints=2)
    assert {name for name in there if ".best" in name} == {
        "checkpoint.best_score_1.5001", "checkpoint.best_score_3.000_2", "checkpoint.best_other_0.1000",
    }  # fmt: skip


def test_the_last_updates_are_averaged(tmp_path):
    save_all(tmp_path, save_interval_updates=2)
    last = average_checkpoints.last_checkpoints(tmp_path, 4, "update")
    assert updates_of(tmp_path, [path.stem for path in last]) == [10, 12, 14, 16]


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """fairseq-train, whose functions are replaced when a training begins."""
    trainer = Trainer(load_checkpoint=lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=str(tmp_path_factory.mktemp("none"))), trainer)
    return training_module()


@pytest.fixture
def trained(train, monkeypatch, tmp_path):
    """Train four epochs of four updates, and return after which updates there was a validation."""
    validated = []

    def trained(validate_and_save=train.validate_and_save, dataset={}, **flags):
        trainer = Trainer()
        monkeypatch.setattr(train, "validate", lambda *args: [validated.append(trainer.updates) or 1.0])
        dataset = {"disable_validation": False, "validate_interval": 1, "validate_interval_updates": 0, **dataset}
        cfg = SimpleNamespace(
            optimization=SimpleNamespace(max_update=0, stop_time_hours=0, max_epoch=4),
            dataset=SimpleNamespace(validate_after_updates=0, **dataset),
            checkpoint=CheckpointConfig(save_dir=str(tmp_path), **flags),
        )
        for trainer.updates in range(1, 17):
            epochs = Epochs(trainer.updates)
            validate_and_save(cfg, trainer, None, epochs, ["valid"], epochs.end_of_epoch())
        return validated

    return trained


def ours(function):
    return function


@pytest.mark.parametrize("whose, updates", [(fairseqs, 12), (ours, 16)])
def test_the_last_epoch_is_saved(whose, updates, train, trained, tmp_path):
    """Where --save-interval leaves it out."""
    trained(whose(train.validate_and_save), save_interval=3)
    assert updates_of(tmp_path, LAST) == [updates] and not (tmp_path / "checkpoint4.pt").exists()


@pytest.mark.parametrize("whose, updates", [(fairseqs, [2, 6, 8, 10, 14, 16]), (ours, [*SAVES])])
def test_what_is_saved_by_update_is_validated(whose, updates, train, trained):
    assert trained(whose(train.validate_and_save), {"validate_interval": 2}, save_interval_updates=2) == updates


@pytest.mark.parametrize("whose, stops", [(fairseqs, True), (ours, False)])
def test_patience_after_a_value_that_is_no_number(whose, stops, train, monkeypatch):
    function = whose(train.should_stop_early)
    for name in ("best", "num_runs"):
        monkeypatch.setattr(train.should_stop_early, name, None, raising=False)
    cfg = SimpleNamespace(checkpoint=CheckpointConfig(patience=2))
    assert [function(cfg, value) for value in (math.nan, 3.0, 2.0)][-1] == stops


def test_a_value_that_is_missing_in_a_validation(train):
    cfg, trainer = SimpleNamespace(checkpoint=CheckpointConfig(best_checkpoint_metric="bleu")), Trainer()
    assert math.isnan(train.get_valid_stats(cfg, trainer, {"loss": 3}, True)["bleu"])
    assert trainer.validation_loss == 3
    checkpoint_utils.save_checkpoint.best = 30
    with pytest.raises(KeyError):
        fairseqs(train.get_valid_stats)(cfg, trainer, {"loss": 3}, True)


def test_the_best_value_belongs_to_a_metric_and_a_data_set():
    def decided_by(subset="valid,test", combined=None, **settings):
        dataset = {"valid_subset": subset, "combine_valid_subsets": combined}
        return bookkeeping.decides_the_best({"checkpoint": vars(CheckpointConfig(**settings)), "dataset": dataset})

    assert decided_by() == decided_by("valid", False) != decided_by("test") != decided_by("test", True)
    assert decided_by() != decided_by(best_checkpoint_metric="ppl")
    assert bookkeeping.decides_the_best({"checkpoint": {}}) is None


@pytest.mark.parametrize("there, best", [(True, 3.5), (False, None)], ids=["same folder", "another folder"])
def test_the_best_value_of_a_resumed_training(there, best, train, monkeypatch, tmp_path):
    """It counts where its checkpoint is. fairseq makes no checkpoint_best.pt in another folder until a later value is
    better, and takes that of the training before in one process, which was 0."""
    state = {"best": 3.5, "train_iterator": {"epoch": 1}}
    trainer, cfg = Trainer(load_checkpoint=lambda *args, **kwargs: state), CheckpointConfig(save_dir=str(tmp_path))
    if there:
        save_all(tmp_path, [0])
    checkpoint_utils.save_checkpoint.best = 0
    checkpoint_utils.load_checkpoint(cfg, trainer)
    assert bookkeeping.best_value() == best
    fairseqs(checkpoint_utils.load_checkpoint)(cfg, trainer)
    assert bookkeeping.best_value() == 3.5
