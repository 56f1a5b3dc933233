"""Stochastic cross-head attention ("Memory-efficient Stochastic methods for Memory-based Transformers", section 2.2).

H heads.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class CrossHead(nn.Module):
    """With probability p, in training, the queries of each head look at keys, values and positions of another.

    One permutation of heads serves a whole forward pass of a layer (equation 10); a head may stay with itself. Instead
    of everything that is looked at, the queries are moved, and the results moved back: that is cheaper, and whatever is
    a key's or a value's (positions, persistent vectors, a head's span) goes with it. Biases that are added to queries
    stay with the queries.

    With p = 0 and in evaluation nothing is drawn.
    """

    def __init__(self, heads: int, p: float):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"cross-head probability {p} is out of range; choose a number from 0 to 1")
        self.heads, self.p = heads, p

    def draw(self) -> Tensor | None:
        """Whose keys each head looks at [H], or None for its own."""
        if not self.training or not self.p or torch.rand(()) >= self.p:
            return None
        return torch.randperm(self.heads)

    def forward(self, attend: Callable[..., Tensor], *queries: Tensor) -> Tensor:
        """attend(*queries), heads first in all of them [H, ...], where the heads may be crossed."""
        visited = self.draw()
        if visited is None:
            return attend(*queries)
        visited = visited.to(queries[0].device, non_blocking=True)
        visitor = visited.argsort()
        return attend(*(query.index_select(0, visitor) for query in queries)).index_select(0, visited)
