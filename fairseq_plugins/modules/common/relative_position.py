"""Learned relative positions (Shaw et al., 2018; equation 3 of the all-attention paper).

The relative shift, which moves products with distances to the places of tokens, is in span/band.py; that of
Transformer-XL is in transformer_xl/relative_shift.py.

D width of a head, S maximum span.
"""

import torch
from torch import Tensor, nn


class RelativePosition(nn.Module):
    """One learned vector for each distance, shared by all heads and layers.

    Attributes:
        weight: the vectors [D, S], the last column that of distance 1
    """

    def __init__(self, head_dim: int, max_span: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(head_dim, max_span))

    def scores(self, query: Tensor, span: int | None = None) -> Tensor:
        """query [..., D] -> scores [..., span] of the last `span` positions, by default all. The last column is that of
        the nearest."""
        return query @ self.weight[:, -(span or self.weight.size(1)) :]
