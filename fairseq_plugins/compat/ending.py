"""Patches of when fairseq ends a training."""

import logging
from collections.abc import Mapping
from numbers import Number

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from fairseq_plugins.compat.patch import replace, training_module

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
    runs longer than an uninterrupted one. The patch saves and restores it."""

    @replace(Trainer, "save_checkpoint")
    def save_checkpoint(original, self, filename, extra_state):
        return original(self, filename, {**extra_state, "patience": counted(vars(early_stop()))})

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        extra_state, epoch_itr = original(cfg, trainer, **kwargs)
        reset = cfg.reset_optimizer or cfg.reset_meters  # with these fairseq resets the best score, too
        waited = (extra_state or {}).get("patience")
        if isinstance(waited, Mapping) and not reset and trainer.get_num_updates():
            vars(early_stop()).update(counted(waited))
        return extra_state, epoch_itr


def counted(counts: Mapping) -> dict:
    """The part of these counts that belongs to --patience."""
    return {name: counts[name] for name in ("best", "num_runs") if isinstance(counts.get(name), Number)}


def early_stop():
    """The function of fairseq-train that counts validations without an improvement, in its attributes."""
    return training_module().should_stop_early
