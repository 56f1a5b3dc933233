"""Patches of which checkpoints fairseq writes, keeps and deletes, and of the best value that decides it."""

import logging
import math
import os
import re
from argparse import Namespace
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_plugins.compat.ending import counted, early_stop
from fairseq_plugins.compat.patch import replace, replace_in_training, temporarily

logger = logging.getLogger(__name__)

VALUE = r"(-?(?:inf|\d+(?:\.\d*)?(?:e[+-]?\d+)?))"  # of a metric, in a name
BEST = r"checkpoint\.best_{metric}_" + VALUE + r"(?:_(\d+))?{suffix}\.pt"
BY_UPDATE = r"checkpoint_\d+_(\d+){suffix}\.pt"


def update_checkpoints_end_epochs_too():
    """With --save-interval-updates fairseq does not write the checkpoint of an update that ends an epoch, nor delete
    older ones. So --no-epoch-checkpoints leaves gaps, and an average over the last updates is of others. The patch
    writes it, as at any other update."""

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        if cfg.no_save or not (epoch_itr.end_of_epoch() and update_is_due(cfg, trainer)):
            return original(cfg, trainer, epoch_itr, val_loss)
        name = f"checkpoint_{epoch_itr.epoch}_{trainer.get_num_updates()}{trainer.checkpoint_suffix}.pt"
        saved = save_also([name], original, cfg, trainer, epoch_itr, val_loss)
        if cfg.keep_interval_updates > 0 and trainer.should_save_checkpoint_on_current_rank:
            suffix, every = re.escape(trainer.checkpoint_suffix), cfg.keep_interval_updates_pattern
            paths = checkpoint_utils.checkpoint_paths(cfg.save_dir, BY_UPDATE.format(suffix=suffix), keep_match=True)
            remove([path for path, update in paths if every == -1 or update % every][cfg.keep_interval_updates :])
        return saved


def update_is_due(cfg, trainer) -> bool:
    return cfg.save_interval_updates > 0 and trainer.get_num_updates() % cfg.save_interval_updates == 0


def the_best_checkpoints_are_kept():
    """With --keep-best-checkpoints N fairseq reads the values from the names of the files, but not negative ones, which
    are never deleted. Names have three decimals and a random digit, so close values are in the wrong order, and equal
    ones overwrite each other. A checkpoint that is worse than the only one is not kept, though there is room for N. A
    --checkpoint-suffix with an underscore, and very large values, end in tracebacks. The patch keeps the N best. A name
    has the value with all of its digits and the number of updates; of equal ones the later counts as better."""

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        if cfg.no_save or cfg.keep_best_checkpoints <= 0:
            return original(cfg, trainer, epoch_itr, val_loss)
        kept = best_checkpoints(cfg, trainer.checkpoint_suffix)
        new = [] if val_loss is None else [best_name(cfg, trainer, float(val_loss))]
        ranked = sorted({**kept, **dict(new)}.items(), key=lambda named: named[1], reverse=True)
        due = [name for name, _ in ranked[: cfg.keep_best_checkpoints] if name in dict(new)]
        saved = save_also(due, original, Changed(cfg, keep_best_checkpoints=-1), trainer, epoch_itr, val_loss)
        if trainer.should_save_checkpoint_on_current_rank:
            remove(os.path.join(cfg.save_dir, name) for name, _ in ranked[cfg.keep_best_checkpoints :])
        return saved


def best_name(cfg, trainer, value: float) -> tuple[str, tuple]:
    """The name of a checkpoint with this value of the metric, and its rank: the best checkpoint has the highest."""
    digits = f"{value:.3f}" if value == round(value, 3) and "e" not in repr(value) else repr(value)
    updates = trainer.get_num_updates()
    name = f"checkpoint.best_{cfg.best_checkpoint_metric}_{digits}_{updates}{trainer.checkpoint_suffix}.pt"
    return name, (value if cfg.maximize_best_checkpoint_metric else -value, updates)


def best_checkpoints(cfg, suffix: str) -> dict[str, tuple]:
    """The names and ranks of the best checkpoints in the folder, those of fairseq's own names, too."""
    pattern = re.compile(BEST.format(metric=re.escape(cfg.best_checkpoint_metric), suffix=re.escape(suffix)))
    names = PathManager.ls(cfg.save_dir) if PathManager.exists(cfg.save_dir) else []
    sign = 1 if cfg.maximize_best_checkpoint_metric else -1
    return {match[0]: (sign * float(match[1]), int(match[2] or 0)) for match in map(pattern.fullmatch, names) if match}


class Changed:
    """An object of which some attributes have other values."""

    def __init__(self, original, **changes):
        self._original = original
        vars(self).update(changes)

    def __getattr__(self, name):
        return getattr(self._original, name)


def save_also(names: list[str], original, cfg, trainer, epoch_itr, val_loss):
    """Save as the original does, and under these names in --save-dir. The trainer writes once, and copies."""
    others = [os.path.join(cfg.save_dir, name) for name in names]

    def save_checkpoint(filename, extra_state):
        saved = trainer.save_checkpoint(filename, extra_state)
        while others:
            PathManager.copy(filename, others.pop(), overwrite=True)
        return saved

    saved = original(cfg, Changed(trainer, save_checkpoint=save_checkpoint), epoch_itr, val_loss)
    if not others or not trainer.should_save_checkpoint_on_current_rank:
        return saved
    best = {"best": best_value()} if best_value() is not None else {}  # the original had nothing to save
    state = {"train_iterator": epoch_itr.state_dict(), "val_loss": val_loss, **best}
    if hasattr(trainer.task, "get_checkpoint_dict"):
        state |= trainer.task.get_checkpoint_dict()
    return save_checkpoint(others.pop(0), state)


def best_value() -> float | None:
    """The best value of the metric so far, where fairseq has it."""
    return getattr(checkpoint_utils.save_checkpoint, "best", None)


def remove(paths) -> None:
    for path in paths:
        if os.path.lexists(path):
            os.remove(path)
        elif PathManager.exists(path):
            PathManager.rm(path)


def nan_is_never_the_best():
    """If a metric is not a number in one validation, such as a correlation of answers that are all the same, fairseq
    forgets the best value: the next checkpoint becomes checkpoint_best.pt, however bad it is. If it is the first one,
    --patience runs out whatever follows. The patch takes it for no improvement."""

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        return original(cfg, trainer, epoch_itr, None if is_nan(val_loss) else val_loss)

    @replace_in_training("should_stop_early")
    def should_stop_early(original, cfg, valid_loss):
        worst = -math.inf if cfg.checkpoint.maximize_best_checkpoint_metric else math.inf
        return original(cfg, worst if is_nan(valid_loss) else valid_loss)


def is_nan(value) -> bool:
    return value is not None and math.isnan(value)


def last_epochs_are_saved():
    """If --save-interval does not divide --max-epoch, fairseq ends without saving the last epochs. The patch saves them
    in checkpoint_last.pt."""

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        saved = original(cfg, trainer, epoch_itr, val_loss)
        if not cfg.no_save:
            trainer.saved_after = trainer.get_num_updates()
        return saved

    @replace_in_training("validate_and_save")
    def validate_and_save(original, cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch):
        losses, stop = original(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
        last = end_of_epoch and 0 < cfg.optimization.max_epoch <= epoch_itr.epoch
        if last and getattr(trainer, "saved_after", None) != trainer.get_num_updates():
            checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, losses[0])
        return losses, stop


def saved_updates_are_validated():
    """fairseq validates at each update of --save-interval-updates, except where it ends an epoch that
    --validate-interval leaves out: this checkpoint cannot become the best. The patch validates there, too."""

    @replace_in_training("validate_and_save")
    def validate_and_save(original, cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch):
        if end_of_epoch and update_is_due(cfg.checkpoint, trainer):
            cfg = Changed(cfg, dataset=Changed(cfg.dataset, validate_interval_updates=1))
        return original(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)


def the_best_value_is_of_this_metric():
    """fairseq compares the best value of a checkpoint with those of a resumed training, even if
    --best-checkpoint-metric, --maximize-best-checkpoint-metric or the first --valid-subset is another; then --patience
    counts by it, too. A training that goes on in another --save-dir may never have a checkpoint_best.pt there. A second
    training in one process goes on with the best value of the first. The patch forgets the best value in these
    cases."""

    resumed = Namespace(cfg=None)  # the settings of the training that is being resumed

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, path, *args, **kwargs):
        state = original(path, *args, **kwargs)
        before = decides_the_best(state.get("cfg")) if resumed.cfg is not None else None
        if before and before != decides_the_best(resumed.cfg):
            state["extra_state"].pop("best", None)
            state["extra_state"].pop("patience", None)
            logger.info(
                "the best value so far is of another metric or data set: it is forgotten, and --patience counts anew"
            )
        return state

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        vars(checkpoint_utils.save_checkpoint).pop("best", None)
        for name in counted(vars(early_stop())):
            delattr(early_stop(), name)
        with temporarily(resumed, cfg=trainer.cfg):
            loaded = original(cfg, trainer, **kwargs)
        best = Path(cfg.save_dir, f"checkpoint_best{trainer.checkpoint_suffix}.pt")
        if best_value() is not None and not PathManager.exists(str(best)):
            del checkpoint_utils.save_checkpoint.best
            logger.info(f"there is no {best}: the next validation makes one")
        return loaded


def decides_the_best(settings) -> list | None:
    """What the best value belongs to, by the settings of a training; None if they do not say."""
    try:
        of_checkpoints, of_data = settings["checkpoint"], settings["dataset"]
        first, *_ = of_data["valid_subset"].split(",")
        metric = [of_checkpoints[f"{name}best_checkpoint_metric"] for name in ("", "maximize_")]
        return [*metric, first, bool(of_data["combine_valid_subsets"])]
    except (KeyError, TypeError, AttributeError):
        return None
