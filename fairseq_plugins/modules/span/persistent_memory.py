"""Persistent vectors: keys and values that do not depend on the input (section 4.2 of the all-attention paper).

H heads, N vectors of each head, D width of a head, B batch, M block length.
"""

import torch
from torch import Tensor, nn


class PersistentMemory(nn.Module):
    """N key vectors and N value vectors for each head. The parameters are key' and value', where key = sqrt(D) key' and
    value = sqrt(N) value' (section 5.1). So the parameters are as small as those of a feed-forward layer, though the
    vectors have unit variance.

    Attributes:
        key, value: key' and value' [H, N, D], with initial variance 1 / D and 1 / N

    Raises:
        ValueError: N is less than 1
    """

    def __init__(self, heads: int, size: int, head_dim: int):
        super().__init__()
        if size < 1:
            raise ValueError(f"{size} persistent vectors cannot be attended to")
        self.key = nn.Parameter(torch.randn(heads, size, head_dim) * head_dim**-0.5)
        self.value = nn.Parameter(torch.randn(heads, size, head_dim) * size**-0.5)

    @property
    def size(self) -> int:
        return self.key.size(1)

    def scores(self, query: Tensor) -> Tensor:
        """query [H, B, M, D] -> scores [H, B, M, N]. The factor sqrt(D) of the keys and the division of scores by
        sqrt(D) cancel out."""
        return torch.bmm(query.flatten(1, 2), self.key.transpose(1, 2)).view(*query.shape[:-1], -1)

    def mix(self, weights: Tensor) -> Tensor:
        """weights [H, B, M, N] -> weighted sum of the values [H, B, M, D]"""
        return torch.bmm(weights.flatten(1, 2), self.value * self.size**0.5).view(*weights.shape[:-1], -1)
