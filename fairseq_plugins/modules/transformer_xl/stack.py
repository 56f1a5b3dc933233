"""Transformer-XL: layers that each remember their own inputs from block to block (Dai et al., 2019).

B streams, M block length, T tokens in memory, C width, L layers.
"""

from itertools import cycle
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.decoding import LayerStates
from fairseq_plugins.modules.common.dropout import Dropout
from fairseq_plugins.modules.common.feed_forward import FeedForward
from fairseq_plugins.modules.transformer_xl import ages
from fairseq_plugins.modules.transformer_xl.ages import Ages, Run
from fairseq_plugins.modules.transformer_xl.attention import Biases, Window, XLAttention, XLConfig
from fairseq_plugins.modules.transformer_xl.position import Layout, SinusoidalPosition
from fairseq_plugins.modules.transformer_xl.skip_retain import SkipRetain, touch

# mem_len -> how many tokens, all zeros and attended to like any others, a memory has at the start of a stream
INITIAL_MEMORY = {"empty": lambda mem_len: 0, "zeros": lambda mem_len: mem_len}


class XLLayer(nn.Module):
    """Attention, then a feed-forward layer, each with a residual connection and a LayerNorm after it, or before it."""

    def __init__(self, config: XLConfig):
        super().__init__()
        self.pre_norm = config.pre_norm
        self.attention = XLAttention(config)
        self.attention_norm = nn.LayerNorm(config.embed_dim)
        self.sublayer = FeedForward(config.embed_dim, config.ffn_dim, config.dropout)
        self.sublayer_norm = nn.LayerNorm(config.embed_dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, layout: Layout, position: SinusoidalPosition, biases: Biases):
        """x [B, M, C], memory [B, T, C] -> [B, M, C]; the rest as of XLAttention."""
        return self.add(x, self.attention(self.before(x), self.before(memory), layout, position, biases))

    def before(self, x: Tensor) -> Tensor:
        """What attention makes of an input."""
        return self.attention_norm(x) if self.pre_norm else x

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """What follows the attention's result y, both [..., C]."""
        x = x + self.dropout(y)
        if self.pre_norm:
            return x + self.dropout(self.sublayer(self.sublayer_norm(x)))
        x = self.attention_norm(x)
        return self.sublayer_norm(x + self.dropout(self.sublayer(x)))

    def start(self, memory: Tensor, positions: Tensor) -> Window:
        return self.attention.start(self.before(memory), positions)

    def step(self, window: Window, x: Tensor, biases: Biases) -> Tensor:
        """One token of each stream [B, C] -> [B, C]"""
        return self.add(x, self.attention.step(window, self.before(x), biases))


class Memory(NamedTuple):
    """What a layer remembers: its inputs [B, T, C], oldest first, and their ages."""

    inputs: Tensor
    ages: Ages

    def after(self, x: Tensor, mem_len: int) -> "Memory":
        """Once it has taken in the block x [B, M, C]."""
        remembered, tokens = self.inputs.size(1), x.size(1)
        too_old = max(remembered + tokens - mem_len, 0)
        inputs = torch.cat([self.inputs[:, too_old:], x[:, max(too_old - remembered, 0) :]], dim=1)
        seen = ages.followed_by(self.ages, ages.of_block(tokens))
        return Memory(inputs, ages.last(ages.after(seen, tokens), inputs.size(1)))

    def retained(self, tokens: int) -> "Memory":
        """Once a block of so many tokens has gone by."""
        return Memory(self.inputs, ages.after(self.ages, tokens))


class XLStack(nn.Module):
    """L layers over a stream, the body of a language model. No LayerNorm follows the top layer, with pre-norm neither.

    Args:
        config: what the layers share
        num_layers: L
        skip: which layers an update skips, none by default
    """

    def __init__(self, config: XLConfig, num_layers: int, skip: SkipRetain | None = None):
        super().__init__()
        if config.initial_memory not in INITIAL_MEMORY:
            raise ValueError(f"initial memory {config.initial_memory!r} is not one of {', '.join(INITIAL_MEMORY)}")
        self.config = config
        self.position = SinusoidalPosition(
            config.embed_dim, config.position_scheme, config.clamp_len, config.limit, config.position_dropout
        )
        self.layers = nn.ModuleList(XLLayer(config) for _ in range(num_layers))
        self.biases = nn.ModuleList(Biases(config) for _ in range(num_layers if config.untie_biases else 1))
        self.skip = skip or SkipRetain("none", num_layers)

    def forward(self, x: Tensor, caches: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """One block.

        Args:
            x: embeddings [B, M, C]
            caches: what the block before returned; [] at the start of the streams

        Returns:
            Outputs [B, M, C], and for the next block one tensor [B, T, C] a layer, then, where a memory is older than
            the block before, the ages of all.
        """
        layouts: dict[Ages, Layout] = {}
        after = []
        skipped = self.skip.skipped()
        for layer, biases, memory, skip in zip(self.layers, cycle(self.biases), self.unpack(caches, x), skipped):
            if skip:
                after.append(memory.retained(x.size(1)))
                continue
            after.append(memory.after(x.detach(), self.config.mem_len))
            seen = ages.followed_by(memory.ages, ages.of_block(x.size(1)))
            if seen not in layouts:
                layouts[seen] = self.position(seen, x)
            x = layer(x, memory.inputs, layouts[seen], self.position, biases)
        if any(skipped):
            x = touch(x, self.frozen_parameters())
        return x, self.pack(after)

    def frozen_parameters(self) -> list[nn.Parameter]:
        """Those that the present update has no use for: they get no gradient, and are not to be updated."""
        skipped = self.skip.skipped()
        modules = [layer for layer, skip in zip(self.layers, skipped) if skip]
        modules += [biases for i, biases in enumerate(self.biases) if all(skipped[i :: len(self.biases)])]
        return [parameter for module in modules for parameter in module.parameters()]

    def unpack(self, caches: list[Tensor], like: Tensor) -> list[Memory]:
        """Each layer's memory before a block like [B, ..., C]."""
        if not caches:
            tokens = INITIAL_MEMORY[self.config.initial_memory](self.config.mem_len)
            start = like.new_zeros(len(like), tokens, like.size(-1))
            return [Memory(start, ages.just_before(tokens))] * len(self.layers)
        inputs, runs = caches[: len(self.layers)], caches[len(self.layers) :]
        if not runs:
            memories = [Memory(x, ages.just_before(x.size(1))) for x in inputs]
        else:
            rows = runs[0].tolist()
            memories = [
                Memory(x, tuple(Run(length, newest) for layer, length, newest in rows if layer == number))
                for number, x in enumerate(inputs)
            ]
        return [last(memory, self.config.mem_len) for memory in memories]

    @staticmethod
    def pack(memories: list[Memory]) -> list[Tensor]:
        inputs = [memory.inputs for memory in memories]
        if all(memory.ages == ages.just_before(memory.inputs.size(1)) for memory in memories):
            return inputs
        return [*inputs, torch.tensor([(i, *run) for i, memory in enumerate(memories) for run in memory.ages])]

    def start(self, caches: list[Tensor], like: Tensor) -> LayerStates:
        """State before the first step of decoding, for embeddings like [B, C], after a stream that was evaluated, in
        which no memory is older than the block before."""
        reach = self.config.limit or self.config.mem_len + 1
        positions = self.position.embed(torch.arange(reach - 1, -1, -1), like)
        return LayerStates(
            layer.start(memory.inputs, positions)
            for layer, memory in zip(self.layers, self.unpack(caches, like), strict=True)
        )

    def step(self, state: LayerStates, x: Tensor) -> Tensor:
        """One embedding of each stream [B, C] -> output [B, C]"""
        for layer, biases, window in zip(self.layers, cycle(self.biases), state):
            x = layer.step(window, x, biases)
        return x


def last(memory: Memory, tokens: int) -> Memory:
    """The last of a memory, if it is longer than it may be now."""
    if memory.inputs.size(1) <= tokens:
        return memory
    return Memory(memory.inputs[:, memory.inputs.size(1) - tokens :], ages.last(memory.ages, tokens))
