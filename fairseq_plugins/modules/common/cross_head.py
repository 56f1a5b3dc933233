"""Stochastic cross-head attention ("Memory-efficient Stochastic methods for Memory-based Transformers", section 2.2).

H heads.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class CrossHead(nn.Module):
    """In training, with probability p, the queries of each head look at the keys, values and positions of another head.

    One permutation of the heads serves a whole forward pass of a layer (equation 10). A head may be mapped to itself.
    The module permutes the queries and permutes the results back, which is cheaper than to permute keys and values. All
    that belongs to keys and values (positions, persistent vectors, a head's span) is then exchanged with them. Biases
    that are added to queries stay with the queries.

    With p = 0 and in evaluation no random number is drawn.

    Attributes:
        again: take the permutation of the forward pass before, which was of other rows of the same batch

    Raises:
        ValueError: p is not from 0 to 1
    """

    def __init__(self, heads: int, p: float):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"cross-head probability {p} is not in [0, 1]")
        self.heads, self.p = heads, p
        self.again = False
        self._visited: Tensor | None = None

    def draw(self) -> Tensor | None:
        """For each head, the head whose keys it looks at [H]. None if each head looks at its own."""
        if not self.training or not self.p:
            return None
        if not self.again:
            self._visited = torch.randperm(self.heads) if torch.rand(()) < self.p else None
        return self._visited

    def forward(self, attend: Callable[..., Tensor], *queries: Tensor) -> Tensor:
        """attend(*queries) [H, ...], where the heads may be exchanged. All queries are [H, ...] too."""
        visited = self.draw()
        if visited is None:
            return attend(*queries)
        visited = visited.to(queries[0].device, non_blocking=True)
        visitor = visited.argsort()
        return attend(*(query.index_select(0, visitor) for query in queries)).index_select(0, visited)


def draw_again(model: nn.Module, again: bool) -> None:
    """Tell every CrossHead of a model whether the next rows are of the same batch as those before (`again`)."""
    for module in model.modules():
        if isinstance(module, CrossHead):
            module.again = again
