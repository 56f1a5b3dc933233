"""Checkpoints that load, but in which one part is not what fairseq saves: each command refuses them."""

import math
import re

import pytest
import torch

# what changes the state, as fairseq-train saved it
CHANGES = {
    "weights are numbers": lambda state: state.update(model=dict.fromkeys(state["model"], 3)),
    "model of numbers": lambda state: state.update(model={3: 4}),
    "infinite weights": lambda state: [w.fill_(math.inf) for w in state["model"].values() if w.is_floating_point()],
    "meters are a list": lambda state: state["extra_state"].update(metrics=[(0, "x", "time", {})]),
    "a meter of no kind": lambda state: state["extra_state"].update(metrics={"default": [(0, "x", "time", {})]}),
    "place is text": lambda state: state["extra_state"].update(train_iterator="abc"),
    "no place": lambda state: state["extra_state"].pop("train_iterator"),
    "epoch is text": lambda state: state["extra_state"]["train_iterator"].update(epoch="abc"),
    "no extra state": lambda state: state.update(extra_state=None),
    "optimiser of numbers": lambda state: state.update(last_optimizer_state={"state": 3}),
    "history of text": lambda state: state.update(optimizer_history=["abc"]),
    "task is text": lambda state: state.update(task_state="abc"),
    "cutoff is a dictionary": lambda state: set_model(state, adaptive_softmax_cutoff="{'a':1}"),
    "layers are text": lambda state: set_model(state, encoder_layers="x"),
    "a task of nobody's": lambda state: state["cfg"].update(task={"_name": "nonsense"}),
}

# name of the change -> what the sentence says after the name of the checkpoint
RESUMING = {
    "weights are numbers": r"does not hold weights alone \(.* is of type int\)",
    "model of numbers": r"does not hold weights alone \(3 is of type int\)",
    "infinite weights": r"holds weights that are not numbers \(inf in ",
    "meters are a list": "does not hold what fairseq saves as metrics",
    "a meter of no kind": r"does not hold what fairseq saves \(TypeError: 'module' object .*\); take another",
    "place is text": "does not hold what fairseq saves as train_iterator",
    "no place": "does not hold the position of its training in the data",
    "epoch is text": "does not hold the position of its training in the data",
    "no extra state": "does not hold what fairseq saves as extra_state",
    "optimiser of numbers": r"does not hold what fairseq saves \(KeyError: 'param_groups'\)",
    "history of text": "does not hold what fairseq saves as optimizer_history",
    "task is text": "does not hold what fairseq saves as task_state",
}
GENERATING = {
    "weights are numbers": "does not hold weights alone",
    "model of numbers": "does not hold weights alone",
    "infinite weights": "holds weights that are not numbers",
    "task is text": "does not hold what fairseq saves as task_state",
    "cutoff is a dictionary": r"does not hold what fairseq saves \(ValueError: .*--model-overrides",
    "layers are text": r"does not hold what fairseq saves \(TypeError: ",
}
VALIDATING = {"a task of nobody's": r"does not hold what fairseq saves \(\w+: .*nonsense"}


def set_model(state, **settings):
    model = state["cfg"]["model"]
    (model if isinstance(model, dict) else vars(model)).update(settings)


@pytest.fixture
def changed(trained, tmp_path):
    """changed(name) -> a checkpoint with that change."""

    def change(name):
        state = torch.load(trained.checkpoint, weights_only=False)
        CHANGES[name](state)
        torch.save(state, tmp_path / "model.pt")
        return tmp_path / "model.pt"

    return change


@pytest.fixture
def refuses(warm, reverse_corpus, user_dir, tmp_path):
    """refuses(command, flags..., words=...): the command ends with one sentence on the checkpoint, of these words."""

    def refuse(command, *flags, words):
        done = warm(command, reverse_corpus.bin, "--user-dir", user_dir, "--cpu", *flags, log=tmp_path / "log")
        assert done.verdict == "refused", done.output[-3000:]
        assert re.search(rf"checkpoint \S*model\.pt {words}", done.told[0]), done.told

    return refuse


@pytest.mark.parametrize("change", RESUMING)
def test_going_on(change, changed, refuses, tiny_flags, tmp_path):
    save = tmp_path / "save"
    flags = [*tiny_flags, "--restore-file", changed(change), "--save-dir", save, "--max-update", 14]
    refuses("fairseq-train", *flags, words=RESUMING[change])
    assert not list(save.glob("*.pt")), "trained all the same"


@pytest.mark.parametrize("change", GENERATING)
def test_generating(change, changed, refuses):
    refuses("fairseq-generate", "--path", changed(change), words=GENERATING[change])


@pytest.mark.parametrize("change", VALIDATING)
def test_validating(change, changed, refuses):
    flags = ["--task", "translation", "--max-tokens", 600]
    refuses("fairseq-validate", *flags, "--path", changed(change), words=VALIDATING[change])


def test_what_a_command_does_not_read_may_be_anything(warm, trained, changed, tmp_path):
    """The first update of a new training, with no other part of the old one than the weights."""
    new = [*trained.command[:-1], 1, "--save-dir", tmp_path / "save"]
    done = warm(*new, "--finetune-from-model", changed("optimiser of numbers"), log=tmp_path / "log")
    assert done.verdict == "honoured", done.output[-3000:]
