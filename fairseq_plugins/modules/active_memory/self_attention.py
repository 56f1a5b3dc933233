"""Self-attention among the tokens of a sequence (Vaswani et al., 2017). It has no positions of its own.

B batch, H heads, T length, n tokens so far, C width, D width of a head.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class KVCache:
    """The decoding state: keys and values of the tokens so far, both [B, H, n, D]."""

    def __init__(self, keys: Tensor, values: Tensor):
        self.pair = keys, values

    def append(self, *pair: Tensor) -> tuple[Tensor, Tensor]:
        """Append a key and a value [B, H, 1, D]. Return all keys and values so far."""
        keys, values = (torch.cat([old, new], dim=2) for old, new in zip(self.pair, pair))
        self.pair = keys, values
        return self.pair

    def reorder(self, order: Tensor) -> None:
        keys, values = self.pair
        self.pair = keys.index_select(0, order), values.index_select(0, order)


# name -> the factor of q k^T, a function of the width of a head D. The active-memory paper prints the first. Its code
# divides queries by sqrt(D) and then scores by D, which is the second
SCALINGS = {"sqrt": lambda width: width**-0.5, "sqrt-times-width": lambda width: width**-1.5}


class SelfAttention(nn.Module):
    """softmax(q k^T / sqrt(D)) v over [B, T, C], without biases.

    Args:
        dim: C
        heads: H
        head_dim: D; H * D need not be C
        causal: a token sees itself and those before it; else it sees all
        dropout: of attention weights
        scaling: the factor of q k^T, a name in SCALINGS
    """

    def __init__(self, dim: int, heads: int, head_dim: int, causal: bool, dropout: float = 0.0, scaling: str = "sqrt"):
        super().__init__()
        self.heads, self.causal, self.dropout, self.scale = heads, causal, dropout, SCALINGS[scaling](head_dim)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(dim, heads * head_dim, bias=False) for _ in range(3))
        self.out_proj = nn.Linear(heads * head_dim, dim, bias=False)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, C] -> queries, keys and values, each [B, H, T, D]"""
        projected = (project(x) for project in (self.q_proj, self.k_proj, self.v_proj))
        return tuple(y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in projected)

    def merge(self, y: Tensor) -> Tensor:
        """[B, H, T, D] -> [B, T, C]"""
        return self.out_proj(y.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """x [B, T, C], padding at the end [B, T] -> [B, T, C]"""
        # a causal query before the padding does not see it anyway
        seen = None if padding is None or self.causal else ~padding[:, None, None]
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(*self.split(x), seen, dropout, self.causal, scale=self.scale)
        return self.merge(y)

    def start(self, like: Tensor) -> KVCache:
        """The state before the first token, for inputs like [B, C]."""
        _, keys, values = self.split(like.unsqueeze(1)[:, :0])
        return KVCache(keys, values)

    def step(self, cache: KVCache, x: Tensor) -> Tensor:
        """One token [B, C] -> [B, C]"""
        query, *pair = self.split(x.unsqueeze(1))
        y = F.scaled_dot_product_attention(query, *cache.append(*pair), scale=self.scale)
        return self.merge(y).squeeze(1)
