"""Transformer-XL: the memory holds the inputs of each layer, from block to block (Dai et al., 2019).

B streams, M block length, T tokens in memory, C width, L layers.
"""

from itertools import cycle
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.checks import choose
from fairseq_plugins.modules.common.layers import FeedForward, LayerStates, ModuleList, ResidualLayer
from fairseq_plugins.modules.transformer_xl import ages
from fairseq_plugins.modules.transformer_xl.ages import Ages, Run
from fairseq_plugins.modules.transformer_xl.attention import Biases, KVCache, XLAttention, XLConfig
from fairseq_plugins.modules.transformer_xl.position import Layout, SinusoidalPosition
from fairseq_plugins.modules.transformer_xl.skip_retain import SkipRetain, touch

# name -> a function of mem_len: of how many tokens a memory is at the start of a stream. The tokens are zeros, which
# are attended to like any others
INITIAL_MEMORY = {"empty": lambda mem_len: 0, "zeros": lambda mem_len: mem_len}


class XLLayer(ResidualLayer):
    """Attention and a feed-forward sublayer."""

    attention: XLAttention

    def __init__(self, config: XLConfig):
        attention = XLAttention(config)
        sublayer = FeedForward(config.embed_dim, config.ffn_dim, config.dropout, config.activation)
        super().__init__(attention, sublayer, config.embed_dim, config.pre_norm, config.dropout)

    def forward(self, x: Tensor, memory: Tensor, layout: Layout, position: SinusoidalPosition, biases: Biases):
        """x [B, M, C], memory [B, T, C] -> [B, M, C]. The other arguments are those of XLAttention."""
        return self.add(x, self.attention(self.before(x), self.before(memory), layout, position, biases))

    def start(self, memory: Tensor, positions: Tensor) -> KVCache:
        """The state before the first step of decoding. The arguments are those of XLAttention."""
        return self.attention.start(self.before(memory), positions)

    def step(self, cache: KVCache, x: Tensor, biases: Biases) -> Tensor:
        """One token of each stream [B, C] -> [B, C]"""
        return self.add(x, self.attention.step(cache, self.before(x), biases))


class NormalisedResidualLayer(XLLayer):
    """A LayerNorm before each sublayer, whose result is also the summand of the residual connection. The memory is not
    normalised (the public code of Skip Cross-Head, --prenorm)."""

    sublayer: FeedForward
    sublayer_norm: nn.LayerNorm

    def forward(self, x: Tensor, memory: Tensor, layout: Layout, position: SinusoidalPosition, biases: Biases):
        return super().forward(self.attention_norm(x), memory, layout, position, biases)

    def before(self, x: Tensor) -> Tensor:
        return x

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The normalised input x and the attention's output y -> the layer's output. All are [..., C]."""
        x = self.sublayer_norm(x + self.dropout(y))
        return x + self.dropout(self.sublayer(x))

    def step(self, cache: KVCache, x: Tensor, biases: Biases) -> Tensor:
        return super().step(cache, self.attention_norm(x), biases)


class LayerMemory(NamedTuple):
    """The memory of one layer: its inputs [B, T, C], the oldest first, and their ages."""

    inputs: Tensor
    ages: Ages

    def after(self, x: Tensor, mem_len: int) -> "LayerMemory":
        """The memory after the block x [B, M, C]: at most mem_len tokens."""
        length, tokens = self.inputs.size(1), x.size(1)
        too_old = max(length + tokens - mem_len, 0)
        inputs = torch.cat([self.inputs[:, too_old:], x[:, max(too_old - length, 0) :]], dim=1)
        seen = ages.followed_by(self.ages, ages.of_block(tokens))
        return LayerMemory(inputs, ages.last(ages.after(seen, tokens), inputs.size(1)))

    def retained(self, tokens: int) -> "LayerMemory":
        """The same memory after the stream has moved on by `tokens` tokens, which the layer has skipped."""
        return LayerMemory(self.inputs, ages.after(self.ages, tokens))

    def last(self, tokens: int) -> "LayerMemory":
        """The last `tokens` tokens of the memory, or all if there are fewer."""
        if self.inputs.size(1) <= tokens:
            return self
        return LayerMemory(self.inputs[:, self.inputs.size(1) - tokens :], ages.last(self.ages, tokens))

    def ends_at_block(self) -> bool:
        """Whether its tokens are those just before the block: the layer did not skip the block before."""
        return self.ages == ages.just_before(self.inputs.size(1))


class XLMemory(NamedTuple):
    """The memory of an XLStack: that of each layer, the lowest first."""

    layers: list[LayerMemory]

    def tensors(self) -> list[Tensor]:
        """The inputs of each layer [B, T, C]. If a layer was skipped, then also the ages: a row [layer, length, newest]
        for each run."""
        inputs = [memory.inputs for memory in self.layers]
        if all(memory.ends_at_block() for memory in self.layers):
            return inputs
        return [*inputs, torch.tensor([(i, *run) for i, memory in enumerate(self.layers) for run in memory.ages])]

    @classmethod
    def from_tensors(cls, tensors: list[Tensor]) -> "XLMemory":
        inputs = [tensor for tensor in tensors if tensor.dim() == 3]
        if len(inputs) == len(tensors):
            return cls([LayerMemory(x, ages.just_before(x.size(1))) for x in inputs])
        rows = tensors[-1].tolist()
        runs = [tuple(Run(length, newest) for layer, length, newest in rows if layer == i) for i in range(len(inputs))]
        if [sum(run.length for run in layer) for layer in runs] != [x.size(1) for x in inputs]:
            raise ValueError("the ages in the memory are not those of its tokens")
        return cls([LayerMemory(*layer) for layer in zip(inputs, runs)])


class XLStack(nn.Module):
    """L layers over a stream [B, M, C], a `contracts.StreamBody`. No LayerNorm follows the top layer, not even with
    pre-norm. `skip` decides which layers an update skips; None: no layer.

    Raises:
        ValueError: a name in the configuration is not known
    """

    memory_type = XLMemory

    def __init__(self, config: XLConfig, num_layers: int, skip: SkipRetain | None = None):
        super().__init__()
        self.config = config
        self.initial_length = choose("initial memory", config.initial_memory, INITIAL_MEMORY)(config.mem_len)
        self.position = SinusoidalPosition(
            config.embed_dim,
            config.position_scheme,
            config.clamp_len,
            config.limit,
            config.position_dropout,
            config.float32_frequencies,
        )
        layer = NormalisedResidualLayer if config.normalised_residual else XLLayer
        self.layers = ModuleList(layer(config) for _ in range(num_layers))
        self.biases = ModuleList(Biases(config) for _ in range(num_layers if config.untie_biases else 1))
        self.skip = skip or SkipRetain("none", num_layers)

    def forward(self, x: Tensor, memory: XLMemory | None = None) -> tuple[Tensor, XLMemory]:
        """One block (see `contracts.StreamBody`): x [B, M, C] -> [B, M, C], and the memory after it."""
        layouts: dict[Ages, Layout] = {}
        after = []
        skipped = self.skip.skipped()
        before = self.memories_before(memory, x)
        for layer, biases, layer_memory, skip in zip(self.layers, cycle(self.biases), before, skipped):
            if skip:
                after.append(layer_memory.retained(x.size(1)))
                continue
            after.append(layer_memory.after(x.detach(), self.config.mem_len))
            seen = ages.followed_by(layer_memory.ages, ages.of_block(x.size(1)))
            if seen not in layouts:
                layouts[seen] = self.position(seen, x)
            x = layer(x, layer_memory.inputs, layouts[seen], self.position, biases)
        if any(skipped):
            x = touch(x, self.skipped_parameters())
        return x, XLMemory(after)

    def skipped_parameters(self) -> list[nn.Parameter]:
        """The parameters that the present update does not use, because their layers are skipped. They get no
        gradient."""
        skipped = self.skip.skipped()
        modules: list[nn.Module] = [layer for layer, skip in zip(self.layers, skipped) if skip]
        modules += [biases for i, biases in enumerate(self.biases) if all(skipped[i :: len(self.biases)])]
        return [parameter for module in modules for parameter in module.parameters()]

    def memories_before(self, memory: XLMemory | None, like: Tensor) -> list[LayerMemory]:
        """The memory of each layer before a block like [B, ..., C], cut to mem_len tokens.

        Raises:
            ValueError: the memory is of another number of layers
        """
        if memory is None:
            start = like.new_zeros(len(like), self.initial_length, like.size(-1))
            return [LayerMemory(start, ages.just_before(self.initial_length))] * len(self.layers)
        if len(memory.layers) != len(self.layers):
            raise ValueError(f"the memory is of {len(memory.layers)} layers, this model has {len(self.layers)}")
        return [layer.last(self.config.mem_len) for layer in memory.layers]

    def start(self, memory: XLMemory | None, like: Tensor) -> LayerStates:
        """Each layer's memory is taken to end just before the first step. That is so after evaluation, which skips no
        layer."""
        reach = self.config.limit or self.config.mem_len + 1
        positions = self.position.embed(torch.arange(reach - 1, -1, -1, device=like.device), like)
        return LayerStates(
            layer.start(layer_memory.inputs, positions)
            for layer, layer_memory in zip(self.layers, self.memories_before(memory, like), strict=True)
        )

    def step(self, state: LayerStates, x: Tensor) -> Tensor:
        for layer, biases, cache in zip(self.layers, cycle(self.biases), state):
            x = layer.step(cache, x, biases)
        return x
