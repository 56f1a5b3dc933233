"""Patches of when fairseq ends a training."""

import logging
from argparse import Namespace
from collections.abc import Mapping
from numbers import Number

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from fairseq_plugins.compat.patch import replace, replace_in_training, temporarily, training_module

logger = logging.getLogger(__name__)


def ended_trainings_stay_ended():
    """fairseq checks whether to stop only after an update. So if the command of a finished training is given again, it
    makes one more update. The patch checks when the training is resumed."""

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        loaded = original(cfg, trainer, **kwargs)
        if why := ended(trainer):
            logger.info(f"{why}: this training has ended before; there is nothing left to train")
            train_no_more(trainer)
        return loaded


def ended(trainer) -> str:
    """The reason why a resumed training is already complete; empty if it is not."""
    limits, patience = trainer.cfg.optimization, trainer.cfg.checkpoint.patience
    if 0 < limits.max_update <= trainer.get_num_updates():
        return f"update {trainer.get_num_updates()} of --max-update {limits.max_update}"
    if 0 < limits.stop_time_hours * 3600 < trainer.cumulative_training_time():
        return f"after --stop-time-hours {limits.stop_time_hours}"
    if 0 < patience <= getattr(early_stop(), "num_runs", 0):
        return f"no better validation within --patience {patience}"
    return ""


def train_no_more(trainer) -> None:
    """End a training before its first epoch: after resuming, fairseq compares the epoch with this limit."""
    trainer.cfg.optimization.max_epoch = -1


def patience_is_saved():
    """fairseq does not save the number of validations without an improvement, so with --patience a resumed training
    runs longer than an uninterrupted one. The patch saves and restores it. A validation that is made only because the
    training stops, such as at --max-update, does not count for a training that goes on."""

    extra = Namespace(before=None)  # the numbers before such a validation

    @replace_in_training("validate_and_save")
    def validate_and_save(original, cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch):
        due = validation_is_due(cfg, trainer, epoch_itr, end_of_epoch)
        with temporarily(extra, before=None if due else counted(vars(early_stop()))):
            return original(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)

    @replace(Trainer, "save_checkpoint")
    def save_checkpoint(original, self, filename, extra_state):
        now = counted(vars(early_stop())) if extra.before is None else extra.before
        return original(self, filename, {**extra_state, "patience": now})

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        extra_state, epoch_itr = original(cfg, trainer, **kwargs)
        reset = cfg.reset_optimizer or cfg.reset_meters  # with these fairseq resets the best score, too
        waited = (extra_state or {}).get("patience")
        if isinstance(waited, Mapping) and not reset and trainer.get_num_updates():
            vars(early_stop()).update(counted(waited))
        return extra_state, epoch_itr


def validation_is_due(cfg, trainer, epoch_itr, end_of_epoch: bool) -> bool:
    """Would there be a validation now, also if the training went on?"""
    intervals = cfg.checkpoint.save_interval_updates, cfg.dataset.validate_interval_updates
    at_an_update = any(each > 0 and trainer.get_num_updates() % each == 0 for each in intervals)
    return at_an_update or (end_of_epoch and epoch_itr.epoch % cfg.dataset.validate_interval == 0)


def counted(counts: Mapping) -> dict:
    """The part of these counts that belongs to --patience."""
    return {name: counts[name] for name in ("best", "num_runs") if isinstance(counts.get(name), Number)}


def early_stop():
    """The function of fairseq-train that counts validations without an improvement, in its attributes."""
    return training_module().should_stop_early
