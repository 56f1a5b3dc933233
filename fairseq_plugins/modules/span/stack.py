"""A Transformer over an unbounded stream. Each token attends to a span of tokens before it, but not to itself.

B streams, M block length, C width, W span of a layer after trimming, n tokens in memory, L layers.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.adaptive_span import trim_lengths
from fairseq_plugins.modules.common.checks import choose
from fairseq_plugins.modules.common.dropout import Dropout
from fairseq_plugins.modules.common.layers import FeedForward, LayerStates, ModuleList, ResidualLayer
from fairseq_plugins.modules.common.relative_position import RelativePosition
from fairseq_plugins.modules.common.row_ends import last_vectors, resized
from fairseq_plugins.modules.span.attention import (
    AllAttention,
    AttnSplit,
    HeadSplit,
    KVCache,
    SingleHead,
    SpanAttention,
    SpanConfig,
    look_up,
)
from fairseq_plugins.modules.span.persistent_memory import PersistentMemory


class SoftmaxFeedForward(nn.Module):
    """U Softmax(V x) (equation 9). The columns of U and the rows of V are persistent vectors."""

    def __init__(self, config: SpanConfig):
        super().__init__()
        self.persistent = PersistentMemory(1, config.persistent, config.embed_dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[..., C] -> [..., C]"""
        return look_up(self.persistent, x.reshape(1, 1, -1, x.size(-1)), self.dropout).view_as(x)


class Design(NamedTuple):
    """The parts of a layer: the type of its attention, and a function that makes the sublayer after it, if any."""

    attention: type[SpanAttention]
    sublayer: Callable[[SpanConfig], nn.Module] | None = None


TRANSFORMER = Design(SpanAttention, lambda config: FeedForward(config.embed_dim, config.ffn_dim, config.dropout))
INTEGRATIONS = {
    "all-attn": Design(AllAttention),
    "attn-split": Design(AttnSplit),
    "head-split": Design(HeadSplit),
    "single-head": Design(SingleHead),
    "ff-attn": Design(SpanAttention, SoftmaxFeedForward),
}


def integration(name: str, persistent: int) -> Design:
    """The design of section 5.3 that has this name. Without persistent vectors it is attention alone.

    Raises:
        ValueError: the name is not known
    """
    design = choose("integration", name, INTEGRATIONS)
    return design if persistent else Design(SpanAttention)


class SpanLayer(ResidualLayer):
    """A residual layer of this design."""

    attention: SpanAttention

    def __init__(self, config: SpanConfig, design: Design):
        attention, sublayer = design.attention(config), design.sublayer and design.sublayer(config)
        super().__init__(attention, sublayer, config.embed_dim, config.pre_norm)

    def forward(
        self, x: Tensor, memory: Tensor | None, width: int, position: RelativePosition, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The input x [B, M, C], and the inputs before the block [B, n, C] (None: zeros) -> output [B, M, C], and the
        memory for the next block, without its history. The last padding[b] tokens of row b are padding."""
        memory = last(memory, self.attention.memory_length(width), x)
        seen = memory[:, memory.size(1) - width :]
        y = self.attention(self.before(x), self.before(seen), position)
        return self.add(x, y), advanced(memory, x.detach(), padding)

    def start(self, memory: Tensor | None, like: Tensor, width: int, position: RelativePosition) -> KVCache:
        """The state before the first step of decoding, for inputs like [B, C]. The other arguments are as above."""
        return self.attention.start(self.before(last(memory, width, like.unsqueeze(1))), position)

    def step(self, cache: KVCache, x: Tensor) -> Tensor:
        """One token of each stream [B, C] -> [B, C]"""
        return self.add(x, self.attention.step(cache, self.before(x)))


def last(memory: Tensor | None, length: int, like: Tensor) -> Tensor:
    """The last `length` tokens of a memory [B, n, C], after zeros where there are fewer; None: zeros."""
    return like.new_zeros(len(like), length, like.size(-1)) if memory is None else resized(memory, length)


def advanced(memory: Tensor, x: Tensor, padding: Tensor | None = None) -> Tensor:
    """The memory [B, n, C] after the block x [B, M, C]: as long, and a tensor of its own, so that x can be freed. The
    last padding[b] tokens of row b do not count."""
    if padding is not None:
        return last_vectors(torch.cat([memory, x], dim=1), memory.size(1), padding).clone()
    rest = memory.size(1) - x.size(1)
    return torch.cat([memory[:, -rest:], x], dim=1) if rest > 0 else x[:, -memory.size(1) :].clone()


class SpanMemory(NamedTuple):
    """The memory of a SpanStack: the last inputs of each layer [B, n, C], the oldest first, before any LayerNorm."""

    inputs: list[Tensor]

    def tensors(self) -> list[Tensor]:
        return self.inputs

    @classmethod
    def from_tensors(cls, tensors: list[Tensor]) -> "SpanMemory":
        return cls(list(tensors))


class SpanStack(nn.Module):
    """L layers over a stream [B, M, C], a `contracts.EpisodeBody`. With pre-norm a LayerNorm follows the top layer.

    The memory holds the inputs of each layer. At the start of a stream they are zeros, which are attended to like any
    others.
    """

    memory_type = SpanMemory

    def __init__(self, config: SpanConfig, num_layers: int, design: Design = TRANSFORMER):
        super().__init__()
        self.width = config.embed_dim
        self.position = RelativePosition(config.head_dim, config.span)
        self.layers = ModuleList(SpanLayer(config, design) for _ in range(num_layers))
        self.norm = nn.LayerNorm(config.embed_dim) if config.pre_norm else nn.Identity()
        if config.pre_norm:
            scale_residual_branches(self.layers)

    def forward(
        self, x: Tensor, memory: SpanMemory | None = None, padding: Tensor | None = None
    ) -> tuple[Tensor, SpanMemory]:
        """One block (see `contracts.EpisodeBody`): x [B, M, C], padding [B] -> [B, M, C], and the memory after it."""
        after = []
        for layer, before, width in zip(self.layers, self.inputs_before(memory), self.widths(), strict=True):
            x, layer_memory = layer(x, before, width, self.position, padding)
            after.append(layer_memory)
        return self.norm(x), SpanMemory(after)

    def widths(self) -> list[int]:
        """W of each layer."""
        spans = [layer.attention.span for layer in self.layers if layer.attention.span is not None]
        unseen = trim_lengths(spans) if spans else [0] * len(self.layers)
        return [layer.attention.config.span - trimmed for layer, trimmed in zip(self.layers, unseen, strict=True)]

    def inputs_before(self, memory: SpanMemory | None) -> Sequence[Tensor | None]:
        """The inputs of each layer that the memory holds; None at the start of the streams.

        Raises:
            ValueError: the memory is of another number of layers
        """
        inputs = [None] * len(self.layers) if memory is None else memory.inputs
        if len(inputs) != len(self.layers):
            raise ValueError(f"the memory is of {len(inputs)} layers, this model has {len(self.layers)}")
        return inputs

    def start(self, memory: SpanMemory | None, like: Tensor) -> LayerStates:
        parts = zip(self.layers, self.inputs_before(memory), self.widths())
        return LayerStates(layer.start(before, like, width, self.position) for layer, before, width in parts)

    def step(self, state: LayerStates, x: Tensor) -> Tensor:
        for layer, cache in zip(self.layers, state):
            x = layer.step(cache, x)
        return self.norm(x)

    def restart(self, state: LayerStates, rows: Tensor) -> None:
        for cache, fresh in zip(state, self.start(None, self.position.weight.new_empty(1, self.width))):
            cache.keys[:, rows], cache.values[:, rows] = fresh.keys, fresh.values


def scale_residual_branches(layers: ModuleList[SpanLayer]) -> None:
    """Divide the last projection of each residual branch, its bias included, by sqrt(2 L), as the papers' code does."""
    for layer in layers:
        ends = [layer.attention.out_proj]
        if isinstance(layer.sublayer, FeedForward):
            ends.append(layer.sublayer.fc2)
        for parameter in (parameter for end in ends for parameter in end.parameters()):
            parameter.data.mul_((2 * len(layers)) ** -0.5)
