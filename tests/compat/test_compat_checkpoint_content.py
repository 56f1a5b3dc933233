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
    ],
)
def test_weights(state, words):
    expect(words, checkpoint_content.check_weights, "a.pt", state)


@pytest.mark.parametrize(
    "settings, words",
    [
        ("text", "a.pt does not say of which model it is"),
        (None, "a.pt does not say of which model it is"),
        (OmegaConf.create({"task": {}}), "a.pt does not say of which model it is"),
        (OmegaConf.create({"model": None}), "a.pt does not say of which model it is"),
        (OmegaConf.create({"model": {"_name": "theirs"}}), "a.pt is of the architecture theirs.* --user-dir"),
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
        ("loss", math.nan, "diverged: the loss on the validation set is not a number after update 7"),
        ("loss", math.inf, None),
        ("loss", None, None),
        ("pearson", math.nan, None),  # of answers that are all the same
    ],
)
def test_a_diverged_model_is_not_saved(metric, loss, words, tmp_path):
    cfg = SimpleNamespace(best_checkpoint_metric=metric, save_dir=str(tmp_path), no_save=True, keep_best_checkpoints=0)
    trainer = SimpleNamespace(get_num_updates=lambda: 7, data_parallel_rank=0, task=None, checkpoint_suffix="")
    cfg.maximize_best_checkpoint_metric, trainer.should_save_checkpoint_on_current_rank = False, False
    expect(words, checkpoint_utils.save_checkpoint, cfg, trainer, None, loss)


def expect(words, function, *arguments):
    """The function ends with a UserError of these words, or without one."""
    if words is None:
        return function(*arguments)
    with pytest.raises(UserError, match=words):
        function(*arguments)
