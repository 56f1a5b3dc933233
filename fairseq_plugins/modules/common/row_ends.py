"""Rows of a batch that end at different steps."""

import torch
from torch import Tensor
from torch.nn import functional as F


def last_vectors(x: Tensor, width: int, padding: Tensor | None = None) -> Tensor:
    """The last `width` vectors of each row.

    Args:
        x: [B, n, C]
        padding: how many vectors at the end of each row do not count [B]; None: all count

    Returns:
        [B, width, C], or x where it is shorter.
    """
    if padding is None or not padding.any():
        return x[:, -width:]
    first = x.size(1) - width - padding
    places = first.unsqueeze(1) + torch.arange(width, device=x.device)
    return x.gather(1, places.unsqueeze(2).expand(-1, -1, x.size(2)))


def resized(x: Tensor, length: int) -> Tensor:
    """The last `length` vectors of x [B, n, C]; where there are fewer, after zeros."""
    missing = length - x.size(1)
    return F.pad(x, (0, 0, missing, 0)) if missing > 0 else x[:, -missing:]
