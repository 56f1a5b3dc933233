"""Mends of what fairseq believes of a checkpoint's content, once its file has been read."""

import argparse
import math
from collections.abc import Mapping

import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.trainer import Trainer

from fairseq_plugins.compat.patch import replace
from fairseq_plugins.errors import UserError

ANOTHER = "take another checkpoint"

# What optimisers keep for each parameter in its own shape.
OF_THE_SAME_SHAPE = {
    "exp_avg", "exp_avg_sq", "exp_inf", "momentum_buffer", "sum", "square_avg", "acc_delta",
}  # fmt: skip


def checkpoints_hold_what_they_should():
    """fairseq takes what it finds in a checkpoint. Weights that are not numbers, settings that are none, and an
    architecture that nobody knows end in tracebacks or in misleading words, an optimiser's state of other shapes in the
    first update; without a state the training goes on with a new optimiser, and nothing is said."""

    # what the checkpoint at hand is loaded for
    use = argparse.Namespace(builds_model=False, resumes=False)

    @replace(checkpoint_utils, "load_model_ensemble_and_task")
    def load_model_ensemble_and_task(original, *args, **kwargs):
        use.builds_model = True
        try:
            return original(*args, **kwargs)
        finally:
            use.builds_model = False

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, path, *args, **kwargs):
        state = original(path, *args, **kwargs)
        check_weights(path, state)
        if use.builds_model:
            check_settings(path, state)
        if use.resumes:
            check_optimizer(path, state)
        return state

    @replace(Trainer, "load_checkpoint")
    def load_checkpoint(original, self, filename, reset_optimizer=False, *args, **kwargs):
        use.resumes = not reset_optimizer
        try:
            extra_state = original(self, filename, reset_optimizer, *args, **kwargs)
        finally:
            use.resumes = False
        if not reset_optimizer:
            check_shapes(filename, self.optimizer)
        return extra_state


def check_weights(path, state) -> None:
    """Raises UserError for a checkpoint without weights, or with such as are not numbers."""
    if not isinstance(state, Mapping) or not isinstance(state.get("model"), Mapping):
        raise UserError(f"the checkpoint {path} holds no model; {ANOTHER}.")
    for name, weights in state["model"].items():
        if isinstance(weights, torch.Tensor) and weights.is_floating_point() and weights.isnan().any():
            raise UserError(
                f"the checkpoint {path} holds weights that are not numbers (nan in {name}): its training had diverged;"
                " take an earlier one."
            )


def check_settings(path, state: Mapping) -> None:
    """Raises UserError where a checkpoint does not say of which model it is."""
    settings = state.get("cfg")
    model = settings.get("model") if isinstance(settings, omegaconf.DictConfig) else None
    if not isinstance(model, omegaconf.DictConfig | argparse.Namespace):
        raise UserError(f"the checkpoint {path} does not say of which model it is (its settings lack it); {ANOTHER}.")
    name = getattr(model, "_name", None) or getattr(model, "arch", None)
    if name not in ARCH_MODEL_REGISTRY and name not in MODEL_REGISTRY:
        raise UserError(
            f"the checkpoint {path} is of the architecture {name}, which is unknown here; give the --user-dir it was"
            " trained with."
        )


def check_optimizer(path, state: Mapping) -> None:
    """Raises UserError for a checkpoint from which a training cannot go on."""
    if not state.get("optimizer_history") or not isinstance(state.get("last_optimizer_state"), Mapping):
        raise UserError(
            f"the checkpoint {path} holds no state of the optimiser: with --reset-optimizer the training begins with a"
            " new one, with --finetune-from-model from the weights alone."
        )


def check_shapes(path, optimizer) -> None:
    """Raises UserError where the state that an optimiser was given is not that of its parameters."""
    kept = optimizer.optimizer.state if optimizer is not None else {}
    for parameter, state in kept.items():
        for name in OF_THE_SAME_SHAPE & set(state):
            if getattr(state[name], "shape", None) != parameter.shape:
                raise UserError(
                    f"the checkpoint {path} holds the state of an optimiser for other parameters ({name} does not have"
                    f" the shape {list(parameter.shape)}); give the flags it was trained with, or pass"
                    " --reset-optimizer."
                )


def diverged_models_are_not_saved():
    """A training may end, or be saved, right after the update that spoilt the model: fairseq notices at the gradients
    of the next one. The loss on the validation set shows it before the last good checkpoint is overwritten."""

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        if cfg.best_checkpoint_metric == "loss" and val_loss is not None and math.isnan(val_loss):
            raise UserError(
                "training diverged: the loss on the validation set is not a number after update"
                f" {trainer.get_num_updates()}. The checkpoints in --save-dir are from before; lower --lr, lengthen"
                " --warmup-updates or set --clip-norm."
            )
        return original(cfg, trainer, epoch_itr, val_loss)
