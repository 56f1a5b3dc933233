"""Each check of a checkpoint's content, on states as fairseq hands them over. The commands: cli/test_errors.py."""

import argparse
import math
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from fairseq_plugins.compat import checkpoint_content
from fairseq_plugins.errors import UserError


@pytest.mark.parametrize(
    "state, words",
    [
        ([], "a.pt holds no model"),
        ({"model": None}, "a.pt holds no model"),
        ({"model": {"w": torch.tensor([1, math.nan])}}, r"a.pt holds weights that are not numbers \(nan in w\)"),
        ({"model": {"w": torch.tensor([1, -math.inf]), "step": torch.tensor(3)}}, None),  # a mask may be infinite
        ({"model": {"softmax._float_tensor": torch.tensor([math.nan])}}, None),  # which fairseq saves as it was found
        ({"model": {"w": 3}}, r"a.pt does not hold weights alone \(w is of type int\)"),
        ({"model": {3: torch.zeros(1)}}, r"a.pt does not hold weights alone \(3 "),
        ({"model": {"quantizer._extra_state": {"bits": 8}}}, None),  # of torch's modules that have more than tensors
    ],
)
def test_weights(state, words):
    expect(words, checkpoint_content.check_weights, "a.pt", state)


@pytest.mark.parametrize("value, words", [(math.inf, r"a.pt .* not numbers \(inf in weight\)"), (1e38, None)])
def test_the_parameters_of_a_model(value, words):
    model = torch.nn.Linear(2, 3)
    model.register_buffer("mask", torch.tensor([0, -math.inf]))
    torch.nn.init.constant_(model.weight[1:], value)
    expect(words, checkpoint_content.check_parameters, "a.pt", model)


@pytest.mark.parametrize(
    "state, words",
    [
        ({}, None),  # of an early fairseq
        ({"extra_state": {}, "optimizer_history": [{}], "task_state": {}}, None),
        ({"extra_state": {"metrics": {}, "train_iterator": {"epoch": 1}}}, None),
        ({"extra_state": None}, "a.pt .* as extra_state"),
        ({"extra_state": {"metrics": []}}, "a.pt .* as metrics"),
        ({"extra_state": {"train_iterator": "abc"}}, "a.pt .* as train_iterator"),
        ({"optimizer_history": []}, "a.pt .* as optimizer_history"),
        ({"optimizer_history": [{}, "abc"]}, "a.pt .* as optimizer_history"),
        ({"task_state": "abc"}, "a.pt .* as task_state"),
    ],
)
def test_the_parts_beside_the_weights(state, words):
    expect(words, checkpoint_content.check_kinds, "a.pt", state)


@pytest.mark.parametrize(
    "place, words",
    [
        ({"epoch": 1}, None),
        ({"epoch": 2, "iterations_in_epoch": 7}, None),
        ({"epoch": 0, "iterations_in_epoch": 0}, "a.pt does not hold the position .* --finetune-from-model"),
        (None, "epoch None"),
        ({"epoch": "2"}, "epoch '2'"),
        ({"epoch": 2, "iterations_in_epoch": 1.5}, "batch 1.5"),
        ({"epoch": 2, "iterations_in_epoch": -1}, "batch -1"),
    ],
)
def test_the_place_in_the_data(place, words):
    expect(words, checkpoint_content.check_place, "a.pt", {"train_iterator": place})


@pytest.mark.parametrize(
    "error, words",
    [
        (KeyError("step"), r"a.pt does not hold what fairseq saves \(KeyError: 'step'\); take another"),
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
    parts = {"model": {}, "optimizer_history": [{"best_loss": 0.0}], "extra_state": {}}
    settings = {"model": {"_name": "transformer_lm"}}
    torch.save({**parts, "args": None}, tmp_path / "part.pt")
    torch.save({**parts, "cfg": settings}, tmp_path / "whole.pt")

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
    "settings, words",
    [
        ("text", "a.pt does not hold the settings of its model"),
        (None, "a.pt does not hold the settings of its model"),
        (OmegaConf.create({"task": {}}), "a.pt does not hold the settings of its model"),
        (OmegaConf.create({"model": None}), "a.pt does not hold the settings of its model"),
        (OmegaConf.create({"model": {"_name": "theirs"}}), "a.pt has the architecture theirs.* --user-dir"),
        (OmegaConf.create({"model": {"_name": "transformer_lm"}}), None),
        (OmegaConf.create({"model": argparse.Namespace(arch="lstm")}, flags={"allow_objects": True}), None),
    ],
)
def test_settings(settings, words):
    expect(words, checkpoint_content.check_settings, "a.pt", {"cfg": settings})


@pytest.mark.parametrize(
    "state, words",
    [
        ({"optimizer_history": [], "last_optimizer_state": {}}, "a.pt holds no state of the optimiser"),
        ({"optimizer_history": [{}]}, "a.pt holds no state of the optimiser.*--reset-optimizer"),
        ({"optimizer_history": [{}], "last_optimizer_state": None}, "a.pt holds no state of the optimiser"),
        ({"optimizer_history": [{}], "last_optimizer_state": "text"}, "a.pt holds no state of the optimiser"),
        ({"optimizer_history": [{}], "last_optimizer_state": {"state": {}}}, None),
    ],
)
def test_the_optimiser(state, words):
    expect(words, checkpoint_content.check_optimizer, "a.pt", state)


@pytest.mark.parametrize("kept, words", [({}, None), ({"exp_avg": torch.zeros(3)}, "exp_avg .*shape \\[2, 3\\]")])
def test_the_shapes_of_the_optimiser(kept, words):
    weights = torch.nn.Parameter(torch.zeros(2, 3))
    inner = torch.optim.Adam([weights])
    weights.sum().backward()
    inner.step()
    inner.state[weights].update(kept)
    expect(words, checkpoint_content.check_shapes, "a.pt", SimpleNamespace(optimizer=inner))


@pytest.mark.parametrize(
    "metric, loss, words",
    [
        ("loss", math.nan, "diverged: the validation loss is not a number after update 7"),
        ("loss", math.inf, None),
        ("loss", None, None),
        ("pearson", math.nan, None),  # of answers that are all the same
    ],
)
def test_a_diverged_model_is_not_saved(metric, loss, words, tmp_path):
    cfg = SimpleNamespace(best_checkpoint_metric=metric, save_dir=str(tmp_path), no_save=True, keep_best_checkpoints=0)
    trainer = SimpleNamespace(get_num_updates=lambda: 7, data_parallel_rank=0, task=None, checkpoint_suffix="")
    trainer.cfg = SimpleNamespace(task=SimpleNamespace())
    cfg.maximize_best_checkpoint_metric, trainer.should_save_checkpoint_on_current_rank = False, False
    expect(words, checkpoint_utils.save_checkpoint, cfg, trainer, None, loss)


def expect(words, function, *arguments):
    """The function ends with a UserError of these words, or without one."""
    if words is None:
        return function(*arguments)
    with pytest.raises(UserError, match=words):
        function(*arguments)
