"""A Transformer over an unbounded stream: each token sees a span of tokens before it, and never itself.

B streams, M block length, C width, W span of a layer after trimming, L layers.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.modules.common.decoding import LayerStates
from fairseq_plugins.modules.common.dropout import Dropout
from fairseq_plugins.modules.common.feed_forward import FeedForward
from fairseq_plugins.modules.common.relative_position import RelativePosition
from fairseq_plugins.modules.span.attention import (
    AllAttention,
    AttnSplit,
    HeadSplit,
    SingleHead,
    SpanAttention,
    SpanConfig,
    Window,
    look_up,
)
from fairseq_plugins.modules.span.persistent_memory import PersistentMemory


class SoftmaxFeedForward(nn.Module):
    """U Softmax(V x) (equation 9); the columns of U and rows of V are persistent vectors."""

    def __init__(self, config: SpanConfig):
        super().__init__()
        self.persistent = PersistentMemory(1, config.persistent, config.embed_dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[..., C] -> [..., C]"""
        return look_up(self.persistent, x.reshape(1, 1, -1, x.size(-1)), self.dropout).view_as(x)


def feed_forward(config: SpanConfig) -> FeedForward:
    return FeedForward(config.embed_dim, config.ffn_dim, config.dropout)


class Design(NamedTuple):
    """What a layer is made of: attention, and what follows it."""

    attention: type[SpanAttention]
    sublayer: Callable[[SpanConfig], nn.Module] | None = None


TRANSFORMER = Design(SpanAttention, feed_forward)
INTEGRATIONS = {
    "all-attn": Design(AllAttention),
    "attn-split": Design(AttnSplit),
    "head-split": Design(HeadSplit),
    "single-head": Design(SingleHead),
    "ff-attn": Design(SpanAttention, SoftmaxFeedForward),
}


def integration(name: str, persistent: int) -> Design:
    """A design of section 5.3; without persistent vectors all of them are attention alone."""
    if name not in INTEGRATIONS:
        raise ValueError(f"integration {name!r} is not one of {', '.join(INTEGRATIONS)}")
    return INTEGRATIONS[name] if persistent else Design(SpanAttention)


class SpanLayer(nn.Module):
    """Attention and what follows it, each with a residual connection and a LayerNorm after it, or before it."""

    def __init__(self, config: SpanConfig, design: Design):
        super().__init__()
        self.pre_norm = config.pre_norm
        self.attention = design.attention(config)
        self.attention_norm = nn.LayerNorm(config.embed_dim)
        self.sublayer = self.sublayer_norm = None
        if design.sublayer:
            self.sublayer = design.sublayer(config)
            self.sublayer_norm = nn.LayerNorm(config.embed_dim)

    def forward(self, x: Tensor, cache: Tensor | None, width: int, position: RelativePosition) -> tuple[Tensor, Tensor]:
        """
        Args:
            x: the layer's input [B, M, C]
            cache: its inputs before the block, as many as there are, oldest first; None for zeros
            width: W
            position: learned relative positions, shared by all layers

        Returns:
            Output [B, M, C] and the cache for the next block, without its history.
        """
        cache = last(cache, self.attention.kept(width), x)
        memory = cache[:, cache.size(1) - width :]
        if self.pre_norm:
            y = self.attention(self.attention_norm(x), self.attention_norm(memory), position)
        else:
            y = self.attention(x, memory, position)
        return self.add(x, y), advanced(cache, x.detach())

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """What follows the attention's result y, both [..., C]."""
        x = x + y if self.pre_norm else self.attention_norm(x + y)
        if self.sublayer is None:
            return x
        if self.pre_norm:
            return x + self.sublayer(self.sublayer_norm(x))
        return self.sublayer_norm(x + self.sublayer(x))

    def start(self, cache: Tensor | None, like: Tensor, position: RelativePosition) -> Window:
        """What decoding begins with, for inputs like [B, C]."""
        memory = last(cache, self.attention.width(), like.unsqueeze(1))
        return self.attention.start(self.attention_norm(memory) if self.pre_norm else memory, position)

    def step(self, window: Window, x: Tensor) -> Tensor:
        """One token of each stream [B, C] -> [B, C]"""
        return self.add(x, self.attention.step(window, self.attention_norm(x) if self.pre_norm else x))


def last(cache: Tensor | None, length: int, like: Tensor) -> Tensor:
    """The last `length` tokens of a cache [B, n, C], zeros before them if there are fewer."""
    if cache is None:
        return like.new_zeros(len(like), length, like.size(-1))
    missing = length - cache.size(1)
    return F.pad(cache, (0, 0, missing, 0)) if missing > 0 else cache[:, -missing:]


def advanced(cache: Tensor, x: Tensor) -> Tensor:
    """A cache [B, n, C] after the block x [B, M, C]: as long, in memory of its own."""
    rest = cache.size(1) - x.size(1)
    return torch.cat([cache[:, -rest:], x], dim=1) if rest > 0 else x[:, -cache.size(1) :].clone()


class SpanStack(nn.Module):
    """L layers over a stream, the body of a language model; with pre-norm a LayerNorm follows the top layer.

    Each layer remembers its own inputs, before any LayerNorm. At the start of a stream they are zeros, which are
    attended to like any others.

    Args:
        config: what the layers share
        num_layers: L
        design: what a layer is made of
    """

    def __init__(self, config: SpanConfig, num_layers: int, design: Design = TRANSFORMER):
        super().__init__()
        self.position = RelativePosition(config.head_dim, config.span)
        self.layers = nn.ModuleList(SpanLayer(config, design) for _ in range(num_layers))
        self.norm = nn.LayerNorm(config.embed_dim) if config.pre_norm else nn.Identity()
        if config.pre_norm:
            scale_residual_branches(self.layers)

    def forward(self, x: Tensor, caches: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """One block.

        Args:
            x: embeddings [B, M, C]
            caches: what the block before returned, one tensor [B, n, C] a layer; [] at the start of the streams

        Returns:
            Outputs [B, M, C], and the caches for the next block.
        """
        widths = [layer.attention.width() for layer in self.layers]  # at once: each waits for the device
        after = []
        for layer, cache, width in zip(self.layers, caches or [None] * len(widths), widths, strict=True):
            x, cache = layer(x, cache, width, self.position)
            after.append(cache)
        return self.norm(x), after

    def start(self, caches: list[Tensor], like: Tensor) -> LayerStates:
        """State before the first step of decoding, for embeddings like [B, C]."""
        caches = caches or [None] * len(self.layers)
        return LayerStates(
            layer.start(cache, like, self.position) for layer, cache in zip(self.layers, caches, strict=True)
        )

    def step(self, state: LayerStates, x: Tensor) -> Tensor:
        """One embedding of each stream [B, C] -> output [B, C]"""
        for layer, window in zip(self.layers, state):
            x = layer.step(window, x)
        return self.norm(x)


def scale_residual_branches(layers: nn.ModuleList) -> None:
    """What ends a residual branch is divided by sqrt(2 L) at the start, bias included, as in the papers' code."""
    for layer in layers:
        ends = [layer.attention.out_proj]
        if isinstance(layer.sublayer, FeedForward):
            ends.append(layer.sublayer.fc2)
        for parameter in (parameter for end in ends for parameter in end.parameters()):
            parameter.data.mul_((2 * len(layers)) ** -0.5)
