"""Dropout whose masks are cheap on a CPU.

On a CPU torch calls its generator once for each element of a mask, which takes longer than the attention around it.
Here one call gives the random bits of four elements.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

BITS = 16


class Dropout(nn.Dropout):
    """nn.Dropout, except that on a CPU its probability is rounded to a multiple of 2^-16."""

    @property
    def rate(self) -> float:
        """The probability in the present mode: 0 in evaluation."""
        return self.p if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.rate:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        return Masked.apply(x, *draw(x, self.rate))


class Masked(torch.autograd.Function):
    """x * mask * scale. It saves only the mask."""

    @staticmethod
    def forward(ctx, x, mask, scale):
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return (x * mask).mul_(scale)

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return (grad * mask).mul_(ctx.scale), None, None


def draw(like: Tensor, rate: float) -> tuple[Tensor, float]:
    """Draw a mask for a tensor, False with probability `rate`; and the scale, 1 / (1 - rate), by which what is left has
    to be multiplied."""
    if like.device.type != "cpu" or rate == 1:
        return torch.empty_like(like, dtype=torch.bool).bernoulli_(1 - rate), 1 / (1 - rate) if rate < 1 else 0.0
    lanes, dropped, lowest = 64 // BITS, round(rate * 2**BITS), -(2 ** (BITS - 1))
    numbers = torch.empty(-(-like.numel() // lanes), dtype=torch.int64).random_(-(2**63), None)
    mask = numbers.view(torch.int16)[: like.numel()] >= min(lowest + dropped, -lowest - 1)
    return mask.view(like.shape), 2**BITS / max(2**BITS - dropped, 1)
