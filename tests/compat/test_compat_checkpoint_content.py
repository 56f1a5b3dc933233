"""Each check of a checkpoint's content, on states as fairseq hands them over. The commands: cli/test_errors.py."""

import argparse
import math
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fakes import Epochs, Trainer, write_checkpoint
from omegaconf import OmegaConf

from fairseq_plugins.compat import checkpoint_content
from fairseq_plugins.errors import UserError


def linear(value: float) -> torch.nn.Module:
    """A layer of such weights, with a mask that is infinite."""
    model = torch.nn.Linear(2, 3)
    model.register_buffer("mask", torch.tensor([0, -math.inf]))
    torch.nn.init.constant_(model.weight[1:], value)
    return model


def adam(**kept):
    """The optimiser of a tensor of 2 x 3 after a step, of whose state some is changed."""
    weights = torch.nn.Parameter(torch.zeros(2, 3))
    inner = torch.optim.Adam([weights])
    weights.sum().backward()
    inner.step()
    inner.state[weights].update(kept)
    return SimpleNamespace(optimizer=inner)


NUMBERS, NO_OPTIMIZER = "holds weights that are not numbers", "a.pt holds no state of the optimiser"
NO_SETTINGS = "a.pt does not hold the settings of its model"
MODEL, LSTM = {"_name": "transformer_lm"}, argparse.Namespace(arch="lstm")

# Each check, what it is given, and words of its sentence, if it has to refuse that
CASES = {
    checkpoint_content.check_weights: [
        ([], "a.pt holds no model"),
        ({"model": None}, "a.pt holds no model"),
        ({"model": {"w": torch.tensor([1, math.nan])}}, rf"a.pt {NUMBERS} \(nan in w\)"),
        ({"model": {"w": torch.tensor([1, -math.inf]), "step": torch.tensor(3)}}, None),  # a mask may be infinite
        ({"model": {"softmax._float_tensor": torch.tensor([math.nan])}}, None),  # which fairseq saves as it was found
        ({"model": {"w": 3}}, r"a.pt does not hold weights alone \(w is of type int\)"),
        ({"model": {3: torch.zeros(1)}}, r"a.pt does not hold weights alone \(3 "),
        ({"model": {"quantizer._extra_state": {"bits": 8}}}, None),  # of torch's modules that have more than tensors
    ],
    checkpoint_content.check_parameters: [(linear(math.inf), rf"a.pt {NUMBERS} \(inf in weight"), (linear(1e38), None)],
    checkpoint_content.check_kinds: [
        ({}, None),  # of an early fairseq
        ({"extra_state": {}, "optimizer_history": [{}], "task_state": {}}, None),
        ({"extra_state": {"metrics": {}, "train_iterator": {"epoch": 1}}}, None),
        ({"extra_state": None}, "a.pt .* the extra_state that"),
        ({"extra_state": {"metrics": []}}, "a.pt .* the metrics that"),
        ({"extra_state": {"train_iterator": "abc"}}, "a.pt .* the train_iterator that"),
        ({"optimizer_history": []}, "a.pt .* the optimizer_history that"),
        ({"optimizer_history": [{}, "abc"]}, "a.pt .* the optimizer_history that"),
        ({"task_state": "abc"}, "a.pt .* the task_state that"),
    ],
    checkpoint_content.check_place: [
        ({"train_iterator": {"epoch": 1}}, None),
        ({"train_iterator": {"epoch": 2, "iterations_in_epoch": 7}}, None),
        ({"train_iterator": {"epoch": 0, "iterations_in_epoch": 0}}, "a.pt does not .* --finetune-from-model"),
        ({"train_iterator": None}, "epoch None"),
        ({"train_iterator": {"epoch": "2"}}, "epoch '2'"),
        ({"train_iterator": {"epoch": 2, "iterations_in_epoch": 1.5}}, "batch 1.5"),
        ({"train_iterator": {"epoch": 2, "iterations_in_epoch": -1}}, "batch -1"),
    ],
    checkpoint_content.check_settings: [
        ({"cfg": "text"}, NO_SETTINGS),
        ({}, NO_SETTINGS),
        ({"cfg": OmegaConf.create({"task": {}})}, NO_SETTINGS),
        ({"cfg": OmegaConf.create({"model": None})}, NO_SETTINGS),
        ({"cfg": OmegaConf.create({"model": {"_name": "theirs"}})}, "a.pt has the architecture theirs.* --user-dir"),
        ({"cfg": OmegaConf.create({"model": MODEL})}, None),
        ({"cfg": OmegaConf.create({"model": LSTM}, flags={"allow_objects": True})}, None),
    ],
    checkpoint_content.check_optimizer: [
        ({"optimizer_history": [], "last_optimizer_state": {}}, NO_OPTIMIZER),
        ({"optimizer_history": [{}]}, f"{NO_OPTIMIZER}.*--reset-optimizer"),
        ({"optimizer_history": [{}], "last_optimizer_state": "text"}, NO_OPTIMIZER),
        ({"optimizer_history": [{}], "last_optimizer_state": {"state": {}}}, None),
    ],
    checkpoint_content.check_shapes: [
        (adam(), None),
        (adam(exp_avg=torch.zeros(3)), r"exp_avg .*shape \[2, 3\]"),
    ],
}


@pytest.mark.parametrize("check, held, words", [(check, *case) for check, cases in CASES.items() for case in cases])
def test_a_check(check, held, words):
    expect(words, check, "a.pt", held)


@pytest.mark.parametrize(
    "error, words",
    [
        (KeyError("step"), r"a.pt does not hold the content of fairseq \(KeyError: 'step'\); take another"),
        (TypeError("no\nsuch thing"), r"\(TypeError: no\)"),
        (ValueError(), r"\(ValueError: \)"),
        (UserError("--depth 0 is no depth."), "--depth 0 is no depth."),
    ],
)
def test_what_goes_wrong_with_the_content(error, words):
    with pytest.raises(UserError, match=words), checkpoint_content.content_errors("a.pt", "take another"):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Error(s) in loading state_dict for Model: size mismatch"),  # has words in error_messages.py
        AssertionError("Optimizer does not match; please reset. A vs B"),
        FileNotFoundError(2, "No such file", "dict.txt"),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("[gloo/transport/tcp/pair.cc:544] Connection closed by peer"),
        ImportError("fairscale"),
        KeyboardInterrupt(),
    ],
)
def test_what_the_content_is_not_to_blame_for(error):
    with pytest.raises(type(error)) as raised, checkpoint_content.content_errors("a.pt", "take another"):
        raise error
    assert raised.value is error


def test_parts_of_a_model_need_no_settings(tmp_path):
    """A task whose model loads a checkpoint, and another model, while it is built from a checkpoint with settings."""
    write_checkpoint(tmp_path / "part.pt", model={}, args=None)
    write_checkpoint(tmp_path / "whole.pt", model={}, args=None, cfg={"model": MODEL})

    class Model(torch.nn.Module):
        def set_num_updates(self, num_updates):
            pass

        def load_state_dict(self, state, strict, model_cfg):
            pass

    class Task:
        def build_model(self, cfg, inner=[str(tmp_path / "whole.pt")]):
            while inner:
                checkpoint_utils.load_model_ensemble_and_task([inner.pop()], task=self)
            checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "part.pt"))
            return Model()

    models, *_ = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "whole.pt")] * 2, task=Task())
    assert len(models) == 2
    with pytest.raises(UserError, match="part.pt does not hold the settings of its model"):
        checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "part.pt")], task=Task())


@pytest.mark.parametrize(
    "metric, value, loss, words",
    [
        ("loss", math.nan, None, "diverged: the validation loss is not a number after update 7. .* if there are any"),
        ("reward", 0.5, math.nan, "diverged: the validation loss is not a number after update 7"),
        ("loss", math.inf, None, None),
        ("loss", None, None, None),
        ("pearson", math.nan, 3.0, None),  # of answers that are all the same
    ],
)
def test_a_diverged_model_is_not_saved(metric, value, loss, words, tmp_path):
    cfg = CheckpointConfig(save_dir=str(tmp_path), best_checkpoint_metric=metric, no_save=True)
    trainer = Trainer(updates=7, validation_loss=loss)
    expect(words, checkpoint_utils.save_checkpoint, cfg, trainer, Epochs(7), value)


def expect(words, function, *arguments):
    """The function ends with a UserError of these words, or without one."""
    if words is None:
        return function(*arguments)
    with pytest.raises(UserError, match=words):
        function(*arguments)
