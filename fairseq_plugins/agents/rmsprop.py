"""torch's RMSprop, with which the Feedback paper trains agents (section 7.2). fairseq has none."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II

from fairseq_plugins.options.fields import option


@dataclass
class RMSpropConfig(FairseqDataclass):
    rmsprop_alpha: float = option(0.99, "decay of the mean of squared gradients")
    rmsprop_eps: float = option(1e-8, "added to its square root")
    weight_decay: float = option(0.0, "weight decay")
    lr: list[float] = II("optimization.lr")


@register_optimizer("rmsprop", dataclass=RMSpropConfig)
class FairseqRMSprop(FairseqOptimizer):
    def __init__(self, cfg: RMSpropConfig, params):
        super().__init__(cfg)
        self._optimizer = torch.optim.RMSprop(params, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict:
        lr = self.cfg.lr[0] if isinstance(self.cfg.lr, Sequence) else self.cfg.lr
        return {
            "lr": lr,
            "alpha": self.cfg.rmsprop_alpha,
            "eps": self.cfg.rmsprop_eps,
            "weight_decay": self.cfg.weight_decay,
        }
