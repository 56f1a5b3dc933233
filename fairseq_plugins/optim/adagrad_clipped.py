"""Adagrad that clips each tensor's gradient on its own (section 5.1 of the all-attention paper)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II
from torch import Tensor

from fairseq_plugins.options.checks import check_ranges
from fairseq_plugins.options.fields import option


class ClippedAdagrad(torch.optim.Optimizer):
    """torch's Adagrad, with a shorter step for each tensor whose gradient has a large norm.

    As in the paper's code: if the norm of a tensor's gradient g, weight decay included, is above ``clip``, the step is
    multiplied by clip / (norm + 1e-10). The accumulator takes the square of the whole g.

    Args:
        params, lr, lr_decay, weight_decay, initial_accumulator_value, eps: as in torch.optim.Adagrad
        clip: norm above which a tensor's step is shortened; 0: never
    """

    def __init__(
        self, params, lr=1e-2, clip=0.0, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10
    ):  # fmt: skip
        super().__init__(params, dict(lr=lr, clip=clip, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps))
        for parameter in (parameter for group in self.param_groups for parameter in group["params"]):
            self.state[parameter] = {"step": 0, "sum": torch.full_like(parameter, initial_accumulator_value)}

    @torch.no_grad()
    def step(self, closure=None):
        """Update every parameter that has a gradient. Returns the closure's loss, if there is a closure."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    update(parameter, parameter.grad, self.state[parameter], group)
        return loss


def update(parameter: Tensor, gradient: Tensor, state: dict, group: dict) -> None:
    """Update one tensor and its state."""
    if group["weight_decay"]:
        gradient = gradient.add(parameter, alpha=group["weight_decay"])
    state["sum"].addcmul_(gradient, gradient)
    rate = group["lr"] / (1 + state["step"] * group["lr_decay"])
    state["step"] += 1
    if group["clip"]:
        norm = gradient.norm()
        gradient = gradient * torch.where(norm > group["clip"], group["clip"] / (norm + 1e-10), 1.0)
    parameter.addcdiv_(gradient, state["sum"].sqrt().add_(group["eps"]), value=-rate)


@dataclass
class AdagradClippedConfig(FairseqDataclass):
    clip_tensor_norm: float = option(
        0.0, "clip each tensor's gradient to this norm; 0: no clipping. Use it with --clip-norm 0"
    )
    weight_decay: float = option(0.0, "weight decay, added to gradients")
    adagrad_lr_decay: float = option(0.0, "divide the learning rate by 1 + this value times the number of updates")
    adagrad_initial_accumulator: float = option(0.0, "initial value of the sum of squares")
    adagrad_eps: float = option(1e-10, "added to the root of the sum of squares")
    lr: list[float] = II("optimization.lr")


@register_optimizer("adagrad_clipped", dataclass=AdagradClippedConfig)
class AdagradClipped(FairseqOptimizer):
    """ClippedAdagrad for --optimizer adagrad_clipped."""

    def __init__(self, cfg: AdagradClippedConfig, params):
        super().__init__(cfg)
        check_ranges(cfg, AdagradClippedConfig)
        self._optimizer = ClippedAdagrad(
            params, initial_accumulator_value=cfg.adagrad_initial_accumulator, **self.optimizer_config
        )

    @property
    def optimizer_config(self) -> dict:
        """The settings of a new training. A resumed training takes them from its checkpoint, except for the learning
        rate, which the scheduler sets; --optimizer-overrides changes them."""
        cfg = self.cfg
        return {
            "lr": cfg.lr[0] if isinstance(cfg.lr, Sequence) else cfg.lr,
            "clip": cfg.clip_tensor_norm,
            "lr_decay": cfg.adagrad_lr_decay,
            "weight_decay": cfg.weight_decay,
            "eps": cfg.adagrad_eps,
        }

    @property
    def supports_flat_params(self) -> bool:
        return False  # one long tensor would be clipped as a whole
