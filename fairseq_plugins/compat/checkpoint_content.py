"""Patches that check the content of a checkpoint after its file was read."""

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

from fairseq_plugins.compat.patch import replace, temporarily
from fairseq_plugins.error_messages import sentence
from fairseq_plugins.errors import OF_BEFORE, UserError, causes

ANOTHER = "take another checkpoint"

# Errors that do not come from the content of a checkpoint, by their type or text.
NOT_OF_CONTENT = (OSError, MemoryError, ImportError, torch.OutOfMemoryError, torch.distributed.DistError)
NO_RESOURCE = r"out of memory|allocate memory|gloo|NCCL|Connection (closed|reset)"

# Parts of an optimiser's state that have the shape of their parameter.
OF_THE_SAME_SHAPE = {
    "exp_avg", "exp_avg_sq", "exp_inf", "momentum_buffer", "sum", "square_avg", "acc_delta",
}  # fmt: skip


def checkpoints_hold_what_they_should():
    """fairseq does not check the content of a checkpoint. Weights that are not numbers, wrong settings, an unknown
    architecture or an optimiser's state of other shapes end in tracebacks or misleading messages. If the optimiser's
    state is missing, a resumed training silently starts with a new optimiser; if the position in the data is missing,
    it silently starts from the first batch. The patch checks all of this and reports it in one sentence."""

    # the files that models are built from, whether a training is resumed, and the file that is read
    use = argparse.Namespace(models=set(), resumes=False, path=None)

    @replace(checkpoint_utils, "load_model_ensemble_and_task")
    def load_model_ensemble_and_task(original, filenames, *args, **kwargs):
        # A model may load other checkpoints as parts of itself while it is built: these need no settings.
        errors = content_errors(" and ".join(map(str, filenames)), f"{ANOTHER}, or other --model-overrides")
        with errors, temporarily(use, models=set(map(str, filenames))):
            models, cfg, task = original(filenames, *args, **kwargs)
        for path, model in zip(filenames, models):
            check_parameters(path, model)
        return models, cfg, task

    @replace(checkpoint_utils, "_upgrade_state_dict")
    def upgrade_state_dict(original, state):  # to the current format, which fills in missing parts
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
        errors = content_errors(filename, f"{ANOTHER}, or give the flags it was trained with")
        with errors, temporarily(use, resumes=not reset_optimizer):
            extra_state = original(self, filename, reset_optimizer, *args, **kwargs)
        if extra_state is not None:  # else there was no checkpoint
            check_parameters(filename, self.get_model())
            if not reset_optimizer:
                check_shapes(filename, self.optimizer)
        return extra_state


@contextmanager
def content_errors(path, instead: str):
    """Report an error inside this context as one of a checkpoint's content. Excepted are errors with a sentence of
    their own (see ``error_messages.py``), and a lack of memory, of a file, of a package or of another process.
    ``instead`` is the user's way out."""
    try:
        yield
    except Exception as error:
        chain = list(causes(error))
        foreign = any(isinstance(cause, NOT_OF_CONTENT) or re.search(NO_RESOURCE, str(cause)) for cause in chain)
        if foreign or sentence(error) is not None:
            raise
        kind, (text, *_) = type(chain[-1]).__name__, str(chain[-1]).splitlines() or [""]
        raise UserError(
            f"the checkpoint {path} does not hold the content of fairseq ({kind}: {text[:200]}); {instead}."
        ) from error


def check_weights(path, state) -> None:
    """Raises UserError for a checkpoint without weights, or with weights that are not numbers."""
    if not isinstance(state, Mapping) or not isinstance(state.get("model"), Mapping):
        raise UserError(f"the checkpoint {path} holds no model; {ANOTHER}.")
    for name, weights in state["model"].items():
        if not isinstance(name, str) or not (isinstance(weights, torch.Tensor) or name.endswith("_extra_state")):
            raise UserError(
                f"the checkpoint {path} does not hold weights alone ({name} is of type"
                f" {type(weights).__name__}); {ANOTHER}."
            )
        if name.endswith("_float_tensor"):  # the adaptive softmax never initialises it
            continue
        if isinstance(weights, torch.Tensor) and weights.is_floating_point() and weights.isnan().any():
            raise UserError(diverged(path, f"nan in {name}"))


def check_parameters(path, model: torch.nn.Module) -> None:
    """Raises UserError if a loaded model has an infinite parameter. A buffer may be infinite, such as a mask."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise UserError(diverged(path, f"inf in {name}"))


def diverged(path, where: str) -> str:
    return (
        f"the checkpoint {path} holds weights that are not numbers ({where}): its training had diverged; take an"
        " earlier one, or train again with a lower --lr."
    )


def check_kinds(path, state: Mapping) -> None:
    """Raises UserError if a part that fairseq saves beside the weights has another type. A part may be missing."""
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
            raise UserError(f"the checkpoint {path} does not hold the {part} that fairseq saves; {ANOTHER}.")


def check_place(path, extra_state: Mapping) -> None:
    """Raises UserError if a checkpoint does not hold the position in the data at which the training continues."""
    place = extra_state["train_iterator"] or {}
    epoch, batch = place.get("epoch"), place.get("iterations_in_epoch", 0)
    # fairseq fills in epoch 0 for a missing epoch
    if not (isinstance(epoch, Integral) and isinstance(batch, Integral) and int(epoch) >= 1 and int(batch) >= 0):
        raise UserError(
            f"the checkpoint {path} does not hold the position of its training in the data (epoch {epoch!r}, batch"
            f" {batch!r}); {ANOTHER}, or start from its weights alone with --finetune-from-model."
        )


def check_settings(path, state: Mapping) -> None:
    """Raises UserError if a checkpoint does not hold the settings of its model, or its architecture is unknown."""
    settings = state.get("cfg")
    model = settings.get("model") if isinstance(settings, omegaconf.DictConfig) else None
    if not isinstance(model, omegaconf.DictConfig | argparse.Namespace):
        raise UserError(f"the checkpoint {path} does not hold the settings of its model; {ANOTHER}.")
    name = getattr(model, "_name", None) or getattr(model, "arch", None)
    if name not in ARCH_MODEL_REGISTRY and name not in MODEL_REGISTRY:
        raise UserError(
            f"the checkpoint {path} has the architecture {name}, which is unknown here; give the --user-dir it was"
            " trained with."
        )


def check_optimizer(path, state: Mapping) -> None:
    """Raises UserError for a checkpoint without the state of an optimiser."""
    if not state.get("optimizer_history") or not isinstance(state.get("last_optimizer_state"), Mapping):
        raise UserError(
            f"the checkpoint {path} holds no state of the optimiser: start from the weights alone"
            " (--finetune-from-model), or with a new optimiser (--reset-optimizer)."
        )


def check_shapes(path, optimizer) -> None:
    """Raises UserError if the state of an optimiser does not have the shapes of its parameters."""
    states = optimizer.optimizer.state if optimizer is not None else {}
    for parameter, state in states.items():
        for name in OF_THE_SAME_SHAPE & set(state):
            if getattr(state[name], "shape", None) != parameter.shape:
                raise UserError(
                    f"the checkpoint {path} holds the state of an optimiser for other parameters ({name} does not have"
                    f" the shape {list(parameter.shape)}); give the flags it was trained with, or pass"
                    " --reset-optimizer."
                )


def diverged_models_are_not_saved():
    """fairseq notices that a model is no longer finite by the gradients of the next update. If the training is saved or
    ends before that, it overwrites the last good checkpoint. The patch stops the training if the validation loss is not
    a number."""

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        loss = val_loss if cfg.best_checkpoint_metric == "loss" else getattr(trainer, "validation_loss", None)
        if loss is not None and math.isnan(loss):
            raise UserError(
                "training diverged: the validation loss is not a number after update"
                f" {trainer.get_num_updates()}. {OF_BEFORE}; lower --lr, lengthen --warmup-updates or set --clip-norm."
            )
        return original(cfg, trainer, epoch_itr, val_loss)
