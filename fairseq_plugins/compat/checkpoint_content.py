"""Mends of what fairseq believes of a checkpoint's content, once its file has been read."""

import argparse
import math
import re
from collections.abc import Mapping
from contextlib import contextmanager
from numbers import Integral

import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.trainer import Trainer

from fairseq_plugins.compat.patch import replace
from fairseq_plugins.errors import UserError, causes, sentence

ANOTHER = "take another checkpoint"

# Errors that a checkpoint is not to blame for, by their type or text.
NOT_OF_CONTENT = (OSError, MemoryError, ImportError, torch.OutOfMemoryError, torch.distributed.DistError)
NO_RESOURCE = r"out of memory|allocate memory|gloo|NCCL|Connection (closed|reset)"

# What optimisers keep for each parameter in its own shape.
OF_THE_SAME_SHAPE = {
    "exp_avg", "exp_avg_sq", "exp_inf", "momentum_buffer", "sum", "square_avg", "acc_delta",
}  # fmt: skip


def checkpoints_hold_what_they_should():
    """fairseq takes what it finds in a checkpoint. Weights that are not numbers, settings that are none, and an
    architecture that nobody knows end in tracebacks or in misleading words, an optimiser's state of other shapes in the
    first update; without a state the training goes on with a new optimiser, and without a place in the data it begins
    anew, and nothing is said."""

    # what is read at the moment: files to build models from, whether to go on with a training, the file being read
    use = argparse.Namespace(models=set(), resumes=False, path=None)

    @replace(checkpoint_utils, "load_model_ensemble_and_task")
    def load_model_ensemble_and_task(original, filenames, *args, **kwargs):
        # A model may load others while it is built, as parts of itself: these need no settings.
        outer, use.models = use.models, set(map(str, filenames))
        try:
            with understood(" and ".join(map(str, filenames)), f"{ANOTHER}, or other --model-overrides"):
                models, cfg, task = original(filenames, *args, **kwargs)
        finally:
            use.models = outer
        for path, model in zip(filenames, models):
            check_parameters(path, model)
        return models, cfg, task

    @replace(checkpoint_utils, "_upgrade_state_dict")
    def upgrade_state_dict(original, state):  # to today's form, which makes up what is missing
        check_weights(use.path, state)
        check_kinds(use.path, state)
        return original(state)

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, path, *args, **kwargs):
        use.path = path
        state = original(path, *args, **kwargs)
        if str(path) in use.models:
            check_settings(path, state)
        if use.resumes:
            check_optimizer(path, state)
            check_place(path, state["extra_state"])
        return state

    @replace(Trainer, "load_checkpoint")
    def load_checkpoint(original, self, filename, reset_optimizer=False, *args, **kwargs):
        outer, use.resumes = use.resumes, not reset_optimizer
        try:
            with understood(filename, f"{ANOTHER}, or give the flags it was trained with"):
                extra_state = original(self, filename, reset_optimizer, *args, **kwargs)
        finally:
            use.resumes = outer
        if extra_state is not None:  # else there was no checkpoint
            check_parameters(filename, self.get_model())
            if not reset_optimizer:
                check_shapes(filename, self.optimizer)
        return extra_state


@contextmanager
def understood(path, instead: str):
    """What goes wrong inside comes from the content of a checkpoint, unless there are words for it already, or it is
    for want of memory, of a file, of a package or of another worker.

    Args:
        instead: the way out

    Raises:
        UserError: something went wrong
    """
    try:
        yield
    except Exception as error:
        chain = list(causes(error))
        foreign = any(isinstance(cause, NOT_OF_CONTENT) or re.search(NO_RESOURCE, str(cause)) for cause in chain)
        if foreign or sentence(error) is not None:
            raise
        kind, (text, *_) = type(chain[-1]).__name__, str(chain[-1]).splitlines() or [""]
        raise UserError(
            f"the checkpoint {path} holds something else than fairseq saves ({kind}: {text[:200]}); {instead}."
        ) from error


def check_weights(path, state) -> None:
    """Raises UserError for a checkpoint without weights, or with such as are not numbers."""
    if not isinstance(state, Mapping) or not isinstance(state.get("model"), Mapping):
        raise UserError(f"the checkpoint {path} holds no model; {ANOTHER}.")
    for name, weights in state["model"].items():
        if not isinstance(name, str) or not (isinstance(weights, torch.Tensor) or name.endswith("_extra_state")):
            raise UserError(
                f"the checkpoint {path} holds something else than weights ({name} is of the type"
                f" {type(weights).__name__}); {ANOTHER}."
            )
        if name.endswith("_float_tensor"):  # the adaptive softmax never fills it: it holds anything
            continue
        if isinstance(weights, torch.Tensor) and weights.is_floating_point() and weights.isnan().any():
            raise UserError(diverged(path, f"nan in {name}"))


def check_parameters(path, model: torch.nn.Module) -> None:
    """Raises UserError where a model that was loaded has an infinite parameter. A buffer, as of a mask, may have."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise UserError(diverged(path, f"inf in {name}"))


def diverged(path, where: str) -> str:
    return (
        f"the checkpoint {path} holds weights that are not numbers ({where}): its training had diverged; take an"
        " earlier one."
    )


def check_kinds(path, state: Mapping) -> None:
    """Raises UserError where a part that fairseq saves beside the weights is of another kind. A part may be missing."""
    history, extra = state.get("optimizer_history", [{}]), state.get("extra_state", {})
    kinds = {
        "optimizer_history": isinstance(history, list) and history and all(isinstance(h, Mapping) for h in history),
        "extra_state": isinstance(extra, Mapping),
        "task_state": isinstance(state.get("task_state", {}), Mapping),
    }
    for part in ("train_iterator", "metrics"):
        kinds[part] = not isinstance(extra, Mapping) or isinstance(extra.get(part), Mapping | None)
    for part, right in kinds.items():
        if not right:
            raise UserError(f"the checkpoint {path} holds something else than fairseq saves as {part}; {ANOTHER}.")


def check_place(path, extra_state: Mapping) -> None:
    """Raises UserError where a checkpoint does not say where in the data a training goes on."""
    place = extra_state["train_iterator"] or {}
    epoch, batch = place.get("epoch"), place.get("iterations_in_epoch", 0)
    # fairseq makes up epoch 0 where there is none
    if not (isinstance(epoch, Integral) and isinstance(batch, Integral) and epoch >= 1 and batch >= 0):
        raise UserError(
            f"the checkpoint {path} does not say where in the data its training stood (epoch {epoch!r}, batch"
            f" {batch!r}); {ANOTHER}, or begin from its weights alone with --finetune-from-model."
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
