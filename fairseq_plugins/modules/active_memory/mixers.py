"""Sublayers that mix the tokens of a sequence: active memory, self-attention, or the sum of both (Dowdell and Zhang,
"Is Attention All What You Need?", sections 3.1 and 3.2). Each is a `contracts.Mixer`.

B batch, T length, C width, K kernel size, * convolution over time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.active_memory.convolution import TimeConvolution, reach
from fairseq_plugins.modules.active_memory.self_attention import SCALINGS, SelfAttention
from fairseq_plugins.modules.active_memory.sequence_ends import PersistentEnds, ZeroEnds
from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.checks import choose, head_width
from fairseq_plugins.modules.common.layers import LayerStates, ModuleList


@dataclass
class MixerConfig:
    """Sizes that all layers of a model share.

    Raises:
        ValueError: a size is too small, a name is not known, or the heads do not divide C
    """

    embed_dim: int  # C
    kernel_size: int = 20  # K
    heads: int = 8  # of self-attention
    head_dim: int = None  # type: ignore[assignment]  # D; None for C / H, which __post_init__ fills in
    causal: bool = True  # a token sees itself and those before it; else the mixer is bidirectional
    # after a plain or persistent convolution, a name in ACTIVATIONS. The paper has ReLU, its code has GELU in tanh form
    # (gelu_accurate)
    activation: str = "relu"
    attention_dropout: float = 0.0  # of attention weights
    attention_scaling: str = "sqrt"  # scale of the scores of self-attention, a name in SCALINGS

    def __post_init__(self):
        if self.kernel_size < 1:
            raise ValueError(f"kernel size {self.kernel_size} is too small")
        choose("activation", self.activation, ACTIVATIONS)
        choose("attention scaling", self.attention_scaling, SCALINGS)
        self.head_dim = head_width(self.embed_dim, self.heads, self.head_dim)


def hard_sigmoid(x: Tensor) -> Tensor:
    """max(0, min(1, 1.2 sigmoid(x) - 0.1)), section 3.1.3"""
    return (1.2 * x.sigmoid() - 0.1).clamp(0, 1)


class ActiveMemory(nn.Module):
    """An operator whose formula is the same for a sequence and for one token; its children are convolutions.

    Attributes:
        ENDS: the type of the padding before and behind a sequence
        DEPTH: how many convolutions follow one another
        formula: of the input and the convolutions, in the order of the children; gives the output, of the input's shape
    """

    ENDS: type[ZeroEnds] = ZeroEnds
    DEPTH = 1
    formula: Callable[..., Tensor]

    def convolutions(self) -> list[TimeConvolution]:
        return [child for child in self.children() if isinstance(child, TimeConvolution)]

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        return self.formula(x, *(partial(convolution, padding=padding) for convolution in self.convolutions()))

    def start(self, like: Tensor) -> LayerStates:
        return LayerStates(convolution.start(like) for convolution in self.convolutions())

    def step(self, state: LayerStates, x: Tensor) -> Tensor:
        pairs = zip(self.convolutions(), state, strict=True)
        return self.formula(x, *(partial(convolution.step, inputs) for convolution, inputs in pairs))


class Convolution(ActiveMemory):
    """y = activation(U * x + B), of x [B, T, C], section 3.1.1."""

    def __init__(self, config: MixerConfig, ends: ZeroEnds):
        super().__init__()
        self.convolution = TimeConvolution(config.embed_dim, config.kernel_size, ends)
        self.activation = ACTIVATIONS[config.activation].forward

    def formula(self, x, convolution):
        (y,) = convolution(x)
        return self.activation(y)


class PersistentConvolution(Convolution):
    """A convolution over [B, T, C] with learned vectors instead of zeros at the ends, section 3.1.2."""

    ENDS = PersistentEnds


class HighwayConvolution(ActiveMemory):
    """y = a b + x (1 - b), of x [B, T, C], where a = U0 * x + B0 and b = hard_sigmoid(U1 * x + B1), section 3.1.3."""

    def __init__(self, config: MixerConfig, ends: ZeroEnds):
        super().__init__()
        self.value_and_gate = TimeConvolution(config.embed_dim, config.kernel_size, ends, outputs=2)

    def formula(self, x, value_and_gate):
        value, gate = value_and_gate(x)
        return torch.lerp(x, value, hard_sigmoid(gate))


class CGRU(ActiveMemory):
    """The Neural GPU's unit (Kaiser and Sutskever, 2015) over [B, T, C], section 2.

    y = u x + (1 - u) tanh(U0 * (r x) + B0), where u = hard_sigmoid(U1 * x + B1) and r = hard_sigmoid(U2 * x + B2). The
    gates are hard as in the authors' code and in section 3.1.3. One convolution follows another, so a token sees twice
    as far.
    """

    DEPTH = 2

    def __init__(self, config: MixerConfig, ends: ZeroEnds):
        super().__init__()
        self.gates = TimeConvolution(config.embed_dim, config.kernel_size, ends, outputs=2)
        self.candidate = TimeConvolution(config.embed_dim, config.kernel_size, ends)

    def formula(self, x, gates, candidate):
        update, reset = map(hard_sigmoid, gates(x))
        (y,) = candidate(reset * x)
        return torch.lerp(y.tanh(), x, update)


SingleMixer = SelfAttention | ActiveMemory


class Sum(ModuleList[SingleMixer]):
    """The sum of the outputs of several mixers for one input (section 3.2)."""

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        return sum(mixer(x, padding) for mixer in self)  # type: ignore[return-value]  # never the 0 of an empty sum

    def start(self, like: Tensor) -> LayerStates:
        return LayerStates(mixer.start(like) for mixer in self)

    def step(self, state: LayerStates, x: Tensor) -> Tensor:
        outputs = (mixer.step(own, x) for mixer, own in zip(self, state, strict=True))
        return sum(outputs)  # type: ignore[return-value]  # never the 0 of an empty sum


ATTENTION = "self-attention"
MEMORIES: dict[str, type[ActiveMemory]] = {
    "convolution": Convolution,
    "persistent-convolution": PersistentConvolution,
    "highway-convolution": HighwayConvolution,
    "cgru": CGRU,
}
# name of a mixer -> the names of the parts that it is the sum of
MIXERS = {name: (name,) for name in (ATTENTION, *MEMORIES)} | {
    f"{ATTENTION}+{name}": (ATTENTION, name) for name in MEMORIES
}


def build_mixers(name: str, config: MixerConfig, layers: int) -> list[SingleMixer | Sum]:
    """A mixer for each layer of a model. All layers share one set of persistent vectors.

    Raises:
        ValueError: the name is not in MIXERS
    """
    parts, sides = choose("mixer", name, MIXERS), reach(config.kernel_size, config.causal)
    kinds = {MEMORIES[part].ENDS for part in parts if part in MEMORIES}
    ends = {kind: kind(*sides, config.embed_dim) for kind in kinds}

    def build(part: str) -> SingleMixer:
        if part == ATTENTION:
            sizes = config.embed_dim, config.heads, config.head_dim
            return SelfAttention(*sizes, config.causal, config.attention_dropout, config.attention_scaling)
        return MEMORIES[part](config, ends[MEMORIES[part].ENDS])

    mixers = [[build(part) for part in parts] for _ in range(layers)]
    return [own[0] if len(own) == 1 else Sum(own) for own in mixers]
