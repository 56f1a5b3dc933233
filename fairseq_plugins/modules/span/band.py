"""A band of a matrix as a view: what turns absolute positions into distances and back, without copies.

M rows, W width of the band, N = W + M - 1 columns. Row t of the band holds columns t, ..., t + W - 1.
"""

import torch
from torch import Tensor


def band(x: Tensor) -> Tensor:
    """The band of x [..., M, N], contiguous or as torch.empty_like leaves it, as a view [..., M, W]."""
    rows, columns = x.shape[-2:]
    return x.as_strided(
        (*x.shape[:-1], columns - rows + 1), (*x.stride()[:-2], x.stride(-2) + 1, 1), x.storage_offset()
    )


class IntoBand(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, fill):
        rows, width = x.shape[-2:]
        y = x.new_full((*x.shape[:-1], width + rows - 1), fill)
        band(y).copy_(x)
        return y

    @staticmethod
    def backward(ctx, grad):
        return band(grad.contiguous()), None


def into_band(x: Tensor, fill: float) -> Tensor:
    """x [..., M, W] -> [..., M, N] with x as its band and `fill` elsewhere."""
    return IntoBand.apply(x, fill)
