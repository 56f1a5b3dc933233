"""The relative positions of Transformer-XL (Dai et al., 2019): sinusoids of distances.

H heads, B batch, M block length, n tokens that a block looks at (those before it and its own), C model width, P
distances.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.checks import choose
from fairseq_plugins.modules.common.dropout import Dropout
from fairseq_plugins.modules.common.sinusoids import sinusoids
from fairseq_plugins.modules.transformer_xl import ages
from fairseq_plugins.modules.transformer_xl.ages import Ages
from fairseq_plugins.modules.transformer_xl.relative_shift import relative_shift


class Pairwise:
    """The distance between the token that looks and the token that is looked at."""

    @staticmethod
    def distances(seen: Ages, tokens: int, device=None) -> Tensor:
        """The distances [P] that queries of a block of `tokens` tokens have to the tokens `seen`, run by run, the
        largest first. Each run begins with one distance more than needed, which the relative shift drops."""
        runs = [torch.arange(run.oldest + tokens, max(run.newest, 0) - 1, -1, device=device) for run in seen]
        return torch.cat(runs)

    @staticmethod
    def place(products: Tensor, seen: Ages) -> Tensor:
        """Products of queries with distances [H, B, M, P] -> products of queries with tokens [H, B, M, n]. Those with
        tokens that come after the query have no meaning."""
        tokens = products.size(2)
        sizes = [run.oldest + tokens - max(run.newest, 0) + 1 for run in seen]
        parts = [
            relative_shift(part)[..., : run.length]
            for part, run in zip(products.split(sizes, dim=-1), seen, strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class LastToken:
    """The distance to the last token of the block, the same for all tokens that look (the skip cross-head paper,
    appendix A).

    So a query does not know its place in the block, and the outputs depend on where a text is cut into blocks.
    """

    @staticmethod
    def distances(seen: Ages, tokens: int, device=None) -> Tensor:
        return ages.tensor(seen, device) + tokens - 1

    @staticmethod
    def place(products: Tensor, seen: Ages) -> Tensor:
        return products


POSITION_SCHEMES: dict[str, type[Pairwise | LastToken]] = {"pairwise": Pairwise, "last-token": LastToken}


class Layout(NamedTuple):
    """Where the tokens lie that a layer looks at. Layers whose memories are equally old share one layout."""

    seen: Ages
    embeddings: Tensor  # of the distances [P, C]
    hidden: Tensor  # True where a query does not see a token [M, n]


class SinusoidalPosition(nn.Module):
    """Makes the layout of a block.

    Args:
        dim: C
        scheme: a name in POSITION_SCHEMES
        clamp: larger distances are replaced by this one; 0 or less for no limit
        limit: how many tokens a query sees at most, itself included; None for no limit
        dropout: of embeddings
        float32_frequencies: compute the frequencies in float32, even where all else is float64

    Raises:
        ValueError: C is odd, or the scheme is not known
    """

    def __init__(
        self,
        dim: int,
        scheme: str,
        clamp: int,
        limit: int | None,
        dropout: float,
        float32_frequencies: bool = False,
    ):
        super().__init__()
        if dim % 2:
            raise ValueError(f"width {dim} is odd, but half of a position's embedding are sines, half cosines")
        self.scheme = choose("position scheme", scheme, POSITION_SCHEMES)
        self.dim, self.clamp, self.limit = dim, clamp, limit
        self.dropout, self.float32_frequencies = Dropout(dropout), float32_frequencies

    def forward(self, seen: Ages, like: Tensor) -> Layout:
        """The layout of a block like [B, M, C] that looks at the tokens `seen`. The block's own tokens are the last of
        them."""
        tokens = like.size(1)
        place = torch.arange(sum(run.length for run in seen), device=like.device)
        before = place[-tokens:].unsqueeze(1) - place  # in places: the limit counts tokens, however old they are
        hidden = before < 0 if self.limit is None else (before < 0) | (before >= self.limit)
        distances = self.scheme.distances(seen, tokens, like.device)
        return Layout(seen, self.dropout(self.embed(distances, like)), hidden)

    def embed(self, distances: Tensor, like: Tensor) -> Tensor:
        """Distances [P] -> embeddings [P, C], like a tensor of this type"""
        if self.clamp > 0:
            distances = distances.clamp(max=self.clamp)
        return sinusoids(distances, self.dim, like.dtype, float32_frequencies=self.float32_frequencies)
