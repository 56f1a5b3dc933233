"""Dropout whose masks cost little on a CPU.

torch draws every element of a mask with a generator call of its own there, which takes longer than the attention
around it. Here one call gives the random bits of four elements.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

BITS = 16


class Dropout(nn.Dropout):
    """nn.Dropout; on a CPU its probability is rounded to a multiple of 2^-16."""

    @property
    def rate(self) -> float:
        """0 at evaluation"""
        return self.p if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.rate:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        return Masked.apply(x, *draw(x, self.rate))


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, keep, scale):
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return (x * keep).mul_(scale)

    @staticmethod
    def backward(ctx, grad):
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None, None


def draw(like: Tensor, rate: float) -> tuple[Tensor, float]:
    """A mask of some tensor's shape, False with probability `rate`, and what makes up for it."""
    if like.device.type != "cpu" or rate == 1:
        return torch.empty_like(like, dtype=torch.bool).bernoulli_(1 - rate), 1 / (1 - rate) if rate < 1 else 0.0
    lanes, dropped, lowest = 64 // BITS, round(rate * 2**BITS), -(2 ** (BITS - 1))
    numbers = torch.empty(-(-like.numel() // lanes), dtype=torch.int64).random_(-(2**63), None)
    keep = numbers.view(torch.int16)[: like.numel()] >= min(lowest + dropped, -lowest - 1)
    return keep.view(like.shape), 2**BITS / max(2**BITS - dropped, 1)
