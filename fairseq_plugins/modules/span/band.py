"""The relative shift of sliding-window attention, as a view of a matrix.

Scores by absolute position are a matrix of M rows (queries) and N columns (keys). Query t sees only the keys t, ...,
t + W - 1. These places form a diagonal band. Read row by row, the band is a matrix of scores by distance. It is a view
with another stride, so nothing is copied.

torch.compile cannot trace writes into such a view. For it, rows that are padded and cut at other places do the same.

M queries, W keys that each query sees, N = W + M - 1 keys.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def band(x: Tensor) -> Tensor:
    """By absolute position [..., M, N] -> by distance, a view [..., M, W]. The last dimension of x has
    stride 1."""
    if torch.compiler.is_compiling():
        return band_copied(x)
    rows, columns = x.shape[-2:]
    return x.as_strided(
        (*x.shape[:-1], columns - rows + 1), (*x.stride()[:-2], x.stride(-2) + 1, 1), x.storage_offset()
    )


class IntoBand(torch.autograd.Function):
    """`into_band` with its derivative."""

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
    """By distance [..., M, W] -> by absolute position [..., M, N], with `fill` outside of the band."""
    return into_band_copied(x, fill) if torch.compiler.is_compiling() else IntoBand.apply(x, fill)


def band_copied(x: Tensor) -> Tensor:
    """`band` as a copy."""
    rows, columns = x.shape[-2:]
    return F.pad(x.flatten(-2), (0, rows)).unflatten(-1, (rows, columns + 1))[..., : columns - rows + 1]


def into_band_copied(x: Tensor, fill: float) -> Tensor:
    """`into_band` in operations that autograd knows."""
    rows, width = x.shape[-2:]
    return F.pad(x, (0, rows), value=fill).flatten(-2)[..., :-rows].unflatten(-1, (rows, width + rows - 1))
