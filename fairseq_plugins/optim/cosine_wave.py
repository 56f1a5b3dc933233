"""The learning rate of the Skip Cross-Head paper: a cosine that falls, rises again and goes on so."""

import math
from dataclasses import dataclass, field

from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.cosine_lr_scheduler import CosineLRSchedule, CosineLRScheduleConfig

from fairseq_plugins.errors import UserError


@dataclass
class CosineWaveConfig(CosineLRScheduleConfig):
    wave_in_warmup: bool = field(
        default=False,
        metadata={
            "help": "the wave starts at update 1, under the warm-up: if that lasts one period, the rate then jumps to"
            " --min-lr and rises. Without it, the wave begins after the warm-up, at --lr"
        },
    )


@register_lr_scheduler("cosine_wave", dataclass=CosineWaveConfig)
class CosineWave(CosineLRSchedule):
    """fairseq's cosine for a period of --lr-period-updates, then the same backwards, and so on.

    fairseq's own jumps from --min-lr to --lr at the end of a period. --t-mult and --lr-shrink have no meaning here.

    The paper says how long a period is (appendix B), not when the first begins. Its code counts the updates of the
    warm-up too, which is as long as a period: --wave-in-warmup. In the code the rate falls steeply in the last few dozen
    updates of the warm-up, as torch computes each rate from the one before; here the warm-up is linear to its end.
    """

    def __init__(self, cfg: CosineWaveConfig, optimizer):
        period = cfg.lr_period_updates if cfg.lr_period_updates > 0 else cfg.max_update - cfg.warmup_updates
        if period < 1:
            raise UserError(
                f"--lr-scheduler cosine_wave would fall for {period:g} updates: give --lr-period-updates 1 or more, or"
                " more --max-update than --warmup-updates."
            )
        super().__init__(cfg, optimizer)

    def step_update(self, num_updates):
        """The rate after so many updates."""
        if num_updates < self.warmup_updates:
            return super().step_update(num_updates)
        place = (num_updates - (0 if self.cfg.wave_in_warmup else self.warmup_updates)) / self.period
        low = self.cfg.min_lr
        self.lr = low + (self.max_lr - low) * (1 + math.cos(math.pi * place)) / 2
        self.optimizer.set_lr(self.lr)
        return self.lr
