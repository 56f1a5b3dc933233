"""Relative positions as Transformer-XL has them (Dai et al., 2019): sinusoids of distances, and which distances.

H heads, B batch, M block length, n tokens that a block looks at (its own and those before it), C model width, P
distances.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.dropout import Dropout
from fairseq_plugins.modules.common.sinusoids import sinusoids
from fairseq_plugins.modules.transformer_xl import ages
from fairseq_plugins.modules.transformer_xl.ages import Ages


class Pairwise:
    """The distance between the token that looks and the one that is looked at.

    A product of every query with every distance is wanted once, but not where it comes out: each query's distances lie
    one place further to the left than those of the query before. Read in rows that are shorter by one, they stand one
    below the other.
    """

    @staticmethod
    def distances(seen: Ages, tokens: int) -> Tensor:
        """[P], for every run those that its tokens may have, and before them one that nobody asks for."""
        runs = [torch.arange(run.oldest + tokens, max(run.newest, 0) - 1, -1) for run in seen]
        return torch.cat(runs)

    @staticmethod
    def place(products: Tensor, seen: Ages) -> Tensor:
        """Products of queries with distances [H, B, M, P] -> of queries with tokens [H, B, M, n]; those of tokens that
        come after the query mean nothing."""
        tokens = products.size(2)
        sizes = [run.oldest + tokens - max(run.newest, 0) + 1 for run in seen]
        parts = [
            part.flatten(2)[..., tokens:].unflatten(2, (tokens, -1))[..., : run.length]
            for part, run in zip(products.split(sizes, dim=-1), seen, strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class LastToken:
    """The distance to the last token of the block, whichever token of it looks (the skip cross-head paper, appendix A).

    So a query's own place in the block is not told, and what a model computes depends on how a text is cut into blocks.
    """

    @staticmethod
    def distances(seen: Ages, tokens: int) -> Tensor:
        return ages.tensor(seen) + tokens - 1

    @staticmethod
    def place(products: Tensor, seen: Ages) -> Tensor:
        return products


POSITION_SCHEMES = {"pairwise": Pairwise, "last-token": LastToken}


class Layout(NamedTuple):
    """What all layers need to know of the places of the tokens that they look at.

    Attributes:
        seen: their ages
        embeddings: of distances [P, C]
        hidden: True where a query does not see a token [M, n]
    """

    seen: Ages
    embeddings: Tensor
    hidden: Tensor


class SinusoidalPosition(nn.Module):
    """Layouts of blocks.

    Args:
        dim: C
        scheme: one of POSITION_SCHEMES
        clamp: distances above it count as it; 0 or less: none do
        limit: how many tokens a query sees, itself included; None: all
        dropout: of embeddings
    """

    def __init__(self, dim: int, scheme: str, clamp: int, limit: int | None, dropout: float):
        super().__init__()
        if dim % 2:
            raise ValueError(f"width {dim} is odd, but half of a position's embedding are sines, half cosines")
        if scheme not in POSITION_SCHEMES:
            raise ValueError(f"position scheme {scheme!r} is not one of {', '.join(POSITION_SCHEMES)}")
        self.dim, self.scheme, self.clamp, self.limit = dim, POSITION_SCHEMES[scheme], clamp, limit
        self.dropout = Dropout(dropout)

    def forward(self, seen: Ages, like: Tensor) -> Layout:
        """For a block like [B, M, C] that looks at the tokens `seen`, its own at their end."""
        tokens = like.size(1)
        place = torch.arange(sum(run.length for run in seen), device=like.device)
        before = place[-tokens:].unsqueeze(1) - place  # by place: a retained memory is no further away
        hidden = before < 0 if self.limit is None else (before < 0) | (before >= self.limit)
        return Layout(seen, self.dropout(self.embed(self.scheme.distances(seen, tokens), like)), hidden)

    def embed(self, distances: Tensor, like: Tensor) -> Tensor:
        """[P] -> [P, C]"""
        if self.clamp > 0:
            distances = distances.clamp(max=self.clamp)
        return sinusoids(distances.to(like.device), self.dim, like.dtype)
