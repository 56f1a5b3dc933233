"""The learning rate of the Skip Cross-Head paper: a cosine that falls and rises again, without jumps."""

import math
from dataclasses import dataclass

from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.cosine_lr_scheduler import CosineLRSchedule, CosineLRScheduleConfig

from fairseq_plugins.errors import UserError
from fairseq_plugins.options.fields import option


@dataclass
class CosineWaveConfig(CosineLRScheduleConfig):
    wave_in_warmup: bool = option(
        False,
        "start the cosine at update 1, during the warm-up: after a warm-up of one period the rate jumps to"
        " --min-lr and rises. Without this flag the cosine starts after the warm-up, at --lr",
    )


@register_lr_scheduler("cosine_wave", dataclass=CosineWaveConfig)
class CosineWave(CosineLRSchedule):
    """fairseq's cosine for a period of --lr-period-updates, then the same cosine backwards, and so on.

    fairseq's own scheduler jumps from --min-lr to --lr at the end of a period. --t-mult and --lr-shrink have no meaning
    here.

    The paper gives the length of a period (appendix B), but not the update at which the first period begins. Its code
    counts the updates of the warm-up, which is as long as a period; so does --wave-in-warmup. There is one difference:
    in the code the rate falls steeply in the last few dozen updates of the warm-up, because torch computes each rate
    from the one before; here the warm-up is linear to its end.
    """

    def __init__(self, cfg: CosineWaveConfig, optimizer):
        period = cfg.lr_period_updates if cfg.lr_period_updates > 0 else cfg.max_update - cfg.warmup_updates
        if period < 1:
            raise UserError(
                f"--lr-scheduler cosine_wave would have a period of {period:g} updates: give --lr-period-updates of at"
                " least 1, or a --max-update above --warmup-updates."
            )
        super().__init__(cfg, optimizer)

    def step_update(self, num_updates):
        """Set and return the rate after ``num_updates`` updates."""
        if num_updates < self.warmup_updates:
            return super().step_update(num_updates)
        place = (num_updates - (0 if self.cfg.wave_in_warmup else self.warmup_updates)) / self.period
        low = self.cfg.min_lr
        self.lr = low + (self.max_lr - low) * (1 + math.cos(math.pi * place)) / 2
        self.optimizer.set_lr(self.lr)
        return self.lr
