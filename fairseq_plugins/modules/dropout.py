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

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        threshold = round(self.p * 2**BITS)
        if x.device.type != "cpu" or threshold == 2**BITS:
            return F.dropout(x, self.p)
        return FromBits.apply(x, threshold)


class FromBits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, threshold):
        keep = mask(x, threshold)
        ctx.save_for_backward(keep)
        ctx.scale = 2**BITS / (2**BITS - threshold)
        return (x * keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, grad):
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None


def mask(like: Tensor, threshold: int) -> Tensor:
    """Booleans of some tensor's shape, False with probability threshold / 2^16."""
    lanes = 64 // BITS
    numbers = torch.empty(-(-like.numel() // lanes), dtype=torch.int64).random_(-(2**63), None)
    lowest = -(2 ** (BITS - 1))
    return (numbers.view(torch.int16)[: like.numel()] >= lowest + threshold).view(like.shape)
