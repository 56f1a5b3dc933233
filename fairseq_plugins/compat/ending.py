"""Mends of when fairseq ends a training."""

import logging
import sys
from collections.abc import Mapping
from numbers import Number

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from fairseq_plugins.compat.patch import replace

logger = logging.getLogger(__name__)


def ended_trainings_stay_ended():
    """fairseq looks whether to stop after an update. A training that has ended, or was killed right after its last
    checkpoint, makes one more update when the same command is given again."""

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        loaded = original(cfg, trainer, **kwargs)
        if why := ended(trainer):
            logger.info(f"{why}: this training has ended before, and nothing is left to do")
            train_no_more(trainer)
        return loaded


def ended(trainer) -> str:
    """Why a training that was resumed has nothing left to do; empty where it goes on."""
    limits, patience = trainer.cfg.optimization, trainer.cfg.checkpoint.patience
    if 0 < limits.max_update <= trainer.get_num_updates():
        return f"update {trainer.get_num_updates()} of --max-update {limits.max_update}"
    if 0 < limits.stop_time_hours * 3600 < trainer.cumulative_training_time():
        return f"--stop-time-hours {limits.stop_time_hours} are over"
    if 0 < patience <= getattr(early_stop(), "num_runs", 0):
        return f"no better validation within --patience {patience}"
    return ""


def train_no_more(trainer) -> None:
    """Before its first epoch, end a training; fairseq compares the epoch with this limit once it has resumed."""
    trainer.cfg.optimization.max_epoch = -1


def patience_is_remembered():
    """fairseq forgets how many validations went without a better one: a training that is resumed goes on longer than
    one that was never stopped."""

    @replace(Trainer, "save_checkpoint")
    def save_checkpoint(original, self, filename, extra_state):
        return original(self, filename, {**extra_state, "patience": dict(vars(early_stop()))})

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        extra_state, epoch_itr = original(cfg, trainer, **kwargs)
        reset = cfg.reset_optimizer or cfg.reset_meters  # what fairseq forgets the best score by
        waited = (extra_state or {}).get("patience")
        if isinstance(waited, Mapping) and not reset and trainer.get_num_updates():
            counts = {name: value for name, value in waited.items() if isinstance(value, Number)}
            vars(early_stop()).update({name: counts[name] for name in ("best", "num_runs") if name in counts})
        return extra_state, epoch_itr


def early_stop():
    """The function of fairseq-train that counts, in its attributes."""
    if hasattr(sys.modules["__main__"], "should_stop_early"):  # python -m fairseq_cli.train
        return sys.modules["__main__"].should_stop_early
    from fairseq_cli.train import should_stop_early  # here, since importing it sets up the log

    return should_stop_early
