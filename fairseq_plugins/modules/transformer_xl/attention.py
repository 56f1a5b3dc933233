"""Attention with relative positions to a block and to a memory of the blocks before it (Dai et al., 2019, section 3.3).

H heads, B batch, M block length, T tokens in memory, n = T + M, C model width, D width of a head, P distances. In
tensors that have a dimension for the heads, it comes first: [H, B, M, D].
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.modules.common.checks import head_width
from fairseq_plugins.modules.common.cross_head import CrossHead
from fairseq_plugins.modules.common.dropout import Dropout
from fairseq_plugins.modules.transformer_xl.position import Layout, SinusoidalPosition


@dataclass
class XLConfig:
    """Sizes and rates that all layers of a stack share.

    Raises:
        ValueError: mem_len is too small, or the heads do not divide C
    """

    embed_dim: int  # C
    heads: int  # H
    ffn_dim: int  # width of the feed-forward sublayer
    mem_len: int  # how many tokens the memory of a layer holds at most
    head_dim: int = None  # type: ignore[assignment]  # D; None for C / H, which __post_init__ fills in
    clamp_len: int = -1  # larger distances are replaced by this one; 0 or less for no limit
    # each token sees mem_len tokens, itself included; else it sees the whole memory and the block up to itself
    same_length: bool = False
    position_scheme: str = "pairwise"  # a name in POSITION_SCHEMES
    initial_memory: str = "empty"  # a name in INITIAL_MEMORY
    pre_norm: bool = False  # a LayerNorm before each sublayer; else after it
    # with pre_norm, the residual connections add the normalised input, and the memory is not normalised
    normalised_residual: bool = False
    activation: str = "relu"  # a name in activations.ACTIVATIONS
    untie_biases: bool = False  # each layer has biases u and v of its own
    bias_scales: bool = False  # each head of each layer has a learned factor of u, and one of v
    float32_frequencies: bool = False  # the frequencies of positions are float32, even where all else is float64
    # scores of attention are float32 where tokens are hidden, even where all else is float64
    float32_scores: bool = False
    dropout: float = 0.0  # of activations, and of the outputs of attention and feed-forward sublayers
    position_dropout: float = 0.0  # of the embeddings of distances
    attention_dropout: float = 0.0  # of attention weights
    cross_head_p: float = 0.0  # probability of cross-head attention in training

    def __post_init__(self):
        if self.mem_len < self.same_length:
            raise ValueError(f"a memory of {self.mem_len} tokens is too small")
        self.head_dim = head_width(self.embed_dim, self.heads, self.head_dim)

    @property
    def limit(self) -> int | None:
        """How many tokens a token sees at most, itself included; None for no limit."""
        return self.mem_len if self.same_length else None


class Biases(nn.Module):
    """Biases of all queries: u in products with keys, v in products with positions, both [H, D]."""

    def __init__(self, config: XLConfig):
        super().__init__()
        self.content = nn.Parameter(torch.zeros(config.heads, config.head_dim))
        self.position = nn.Parameter(torch.zeros(config.heads, config.head_dim))


class BiasScales(nn.Module):
    """Factors of u and v for each head of one layer [H], which count as 0 below 0 and as 1 above 1 (the public code of
    Skip Cross-Head, --learn_bias_scales)."""

    def __init__(self, config: XLConfig):
        super().__init__()
        self.content = nn.Parameter(torch.ones(config.heads))
        self.position = nn.Parameter(torch.ones(config.heads))

    def forward(self, biases: Biases) -> tuple[Tensor, Tensor]:
        """u and v, scaled, both [H, D]"""
        return biases.content * self.factor(self.content), biases.position * self.factor(self.position)

    @staticmethod
    def factor(scales: Tensor) -> Tensor:
        return scales.clamp(0, 1).unsqueeze(1)


class KVCache:
    """The KV cache of decoding: at first keys and values of the memory [H, B, T, D]. A step sees at most `reach`
    tokens. positions [H, reach, D] are projected embeddings of distances, the last that of distance 0."""

    ROOM = 64  # a new buffer has room for at least so many more tokens

    def __init__(self, keys: Tensor, values: Tensor, positions: Tensor):
        self.buffers: tuple[Tensor, ...] = keys, values
        self.positions, self.end = positions, keys.size(2)

    @property
    def reach(self) -> int:
        return self.positions.size(1)

    def append(self, *pair: Tensor) -> None:
        """Append the key and value [H, B, 1, D] of the next token."""
        if self.end == self.buffers[0].size(2):
            begin = max(self.end + 1 - self.reach, 0)
            length = self.end - begin
            self.buffers = tuple(F.pad(x[:, :, begin:], (0, 0, 0, max(length, self.ROOM))) for x in self.buffers)
            self.end = length
        for buffer, new in zip(self.buffers, pair):
            buffer[:, :, self.end] = new.squeeze(2)
        self.end += 1

    def seen(self) -> tuple[Tensor, Tensor, Tensor]:
        """The context of the present step: keys and values [H, B, n, D], and their positions [H, n, D]."""
        keys, values = (x[:, :, max(self.end - self.reach, 0) : self.end] for x in self.buffers)
        return keys, values, self.positions[:, self.reach - keys.size(2) :]

    def reorder(self, order: Tensor) -> None:
        self.buffers = tuple(x.index_select(1, order) for x in self.buffers)


class XLAttention(nn.Module):
    """score(i, j) = ((q_i + u) k_j + (q_i + v) W_r R_ij) / sqrt(D), where R_ij is the embedding of the distance from i
    to j.

    A token sees itself, unlike in `span.attention`.
    """

    def __init__(self, config: XLConfig):
        super().__init__()
        self.head_dim = config.head_dim
        inner = config.heads * config.head_dim
        self.q_proj, self.k_proj, self.v_proj, self.position_proj = (
            nn.Linear(config.embed_dim, inner, bias=False) for _ in range(4)
        )
        self.out_proj = nn.Linear(inner, config.embed_dim, bias=False)
        self.bias_scales = BiasScales(config) if config.bias_scales else None
        self.dropout, self.float32_scores = Dropout(config.attention_dropout), config.float32_scores
        self.cross_head = CrossHead(config.heads, config.cross_head_p)

    def heads(self, x: Tensor) -> Tensor:
        """[..., M, H * D] -> a view [H, ..., M, D]"""
        return x.unflatten(-1, (-1, self.head_dim)).movedim(-2, 0)

    def merge_heads(self, y: Tensor) -> Tensor:
        """[H, B, M, D] -> [B, M, C]"""
        return self.out_proj(y.movedim(0, -2).flatten(2))

    def queries(self, x: Tensor, biases: Biases) -> tuple[Tensor, Tensor]:
        """q + u and q + v, both [H, B, M, D]"""
        query = self.heads(self.q_proj(x)).contiguous()
        content, position = self.bias_scales(biases) if self.bias_scales else (biases.content, biases.position)
        return query + content[:, None, None], query + position[:, None, None]

    def forward(self, x: Tensor, memory: Tensor, layout: Layout, position: SinusoidalPosition, biases: Biases):
        """The block x [B, M, C], the tokens before it [B, T, C], and the layout of both, which `position` made ->
        [B, M, C]"""
        # memory and block are projected apart, because the memory needs no gradient
        keys, values = (
            torch.cat([self.heads(project(memory)), self.heads(project(x))], dim=2)
            for project in (self.k_proj, self.v_proj)
        )
        distances = self.heads(self.position_proj(layout.embeddings))

        def attend(content, query):
            placed = position.scheme.place(products(query, distances), layout.seen)
            return self.attend(content, placed, keys, values, layout.hidden)

        return self.merge_heads(self.cross_head(attend, *self.queries(x, biases)))

    def attend(self, query: Tensor, placed: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None) -> Tensor:
        """q + u [H, B, M, D], products of q + v with positions in the order of the keys [H, B, M, n], keys and values
        [H, B, n, D] -> [H, B, M, D]. hidden [M, n] is True where a query does not see a token; None: all see all."""
        scale = self.head_dim**-0.5
        scores = torch.baddbmm(
            placed.flatten(0, 1), query.flatten(0, 1), keys.flatten(0, 1).transpose(1, 2), beta=scale, alpha=scale
        )
        if hidden is not None:
            if self.float32_scores:
                scores = scores.float().type_as(scores)
            scores = scores.masked_fill_(hidden, float("-inf"))
        weights = self.dropout(scores.softmax(-1))
        return torch.bmm(weights, values.flatten(0, 1)).view_as(query)

    def start(self, memory: Tensor, positions: Tensor) -> KVCache:
        """The state before the first step of decoding, after the memory [B, T, C]. positions [reach, C] are embeddings
        of distances, the last that of distance 0."""
        keys, values = (self.heads(project(memory)) for project in (self.k_proj, self.v_proj))
        return KVCache(keys, values, self.heads(self.position_proj(positions)))

    def step(self, cache: KVCache, x: Tensor, biases: Biases) -> Tensor:
        """One token of each row of the batch [B, C] -> [B, C]. The token sees itself, and the steps that follow see
        it."""
        x = x.unsqueeze(1)
        cache.append(self.heads(self.k_proj(x)), self.heads(self.v_proj(x)))
        keys, values, positions = cache.seen()
        content, query = self.queries(x, biases)
        y = self.attend(content, products(query, positions), keys, values, None)
        return self.merge_heads(y).squeeze(1)


def products(query: Tensor, positions: Tensor) -> Tensor:
    """query [H, B, M, D], positions [H, P, D] -> the products of all with all [H, B, M, P]"""
    return torch.bmm(query.flatten(1, 2), positions.transpose(1, 2)).view(*query.shape[:-1], -1)
