"""Load the model of a checkpoint: shared by the tools that run a model in their own process."""

from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils

from fairseq_plugins.compat.command_line import before_overrides, check_options
from fairseq_plugins.errors import UserError


def load(path: Path, overrides: dict, cpu: bool = False, check=None):
    """The model, in evaluation mode; its configuration; its task.

    Args:
        overrides: options whose values differ from those in training
        cpu: keep the model on the CPU even if there is a GPU
        check: is called with the configuration of the task in training, before the task reads its data

    Raises:
        UserError: there is no such file, or no such option
    """
    (model,), cfg, task = load_ensemble([path], overrides, cpu, check)
    return model, cfg, task


def load_ensemble(paths: list[Path], overrides: dict, cpu: bool = False, check=None):
    """The same for several checkpoints: their models; the configuration and the task of the first."""
    check_there(*paths)
    if check:
        check(checkpoint_utils.load_checkpoint_to_cpu(str(paths[0]))["cfg"].task)
    with before_overrides(lambda cfg: check_options(cfg, overrides)):
        models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(
            list(map(str, paths)), arg_overrides=overrides
        )
    check_options(cfg, overrides)  # of a checkpoint of old, with args in place of cfg
    for model in models:
        if torch.cuda.is_available() and not cpu:
            model.cuda()
        model.eval()
    return models, cfg, task


def check_there(*paths: Path) -> None:
    for path in paths:
        if not path.is_file():
            raise UserError(f"the checkpoint {path} does not exist; give one that fairseq-train wrote.")


def batches(model, task, dataset, **options) -> Iterator:
    """The batches of a dataset in its order, on the device of the model; the options are get_batch_iterator's."""
    for batch in task.get_batch_iterator(dataset, **options).next_epoch_itr(shuffle=False):
        yield on_device(model, batch)


def on_device(model, sample):
    """The sample on the device of the model."""
    return utils.move_to_cuda(sample) if next(model.parameters()).is_cuda else sample
