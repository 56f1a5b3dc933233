"""A Transformer whose layers mix tokens by active memory, self-attention, or both (the active-memory paper).

B batch, T length, C width, L layers, P positions.
"""

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.active_memory.mixers import MixerConfig, SingleMixer, Sum, build_mixers
from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.checks import choose
from fairseq_plugins.modules.common.dropout import Dropout
from fairseq_plugins.modules.common.layers import LayerStates, ModuleList
from fairseq_plugins.modules.common.sinusoids import WAVELENGTHS, sinusoids

NORM_EPSILON = 1e-6


class Layer(nn.Module):
    """Two residual sublayers x + f(LayerNorm(x)): f is the mixer in the first and a feed-forward layer in the second.

    Args:
        dim: C
        ffn_dim: width of the feed-forward layer
        activation: of the feed-forward layer, a name in ACTIVATIONS
        dropout: of the outputs of mixer and feed-forward layer, as in Vaswani et al.; the paper does not say where
        activation_dropout: of the output of the activation, as in the authors' code
    """

    def __init__(
        self,
        dim: int,
        ffn_dim: int,
        mixer: SingleMixer | Sum,
        activation: str,
        dropout: float,
        activation_dropout: float,
    ):
        super().__init__()
        self.mixer, self.mixer_norm = mixer, nn.LayerNorm(dim, NORM_EPSILON)
        self.fc1, self.fc2 = nn.Linear(dim, ffn_dim), nn.Linear(ffn_dim, dim)
        self.ffn_norm = nn.LayerNorm(dim, NORM_EPSILON)
        self.activation = choose("activation", activation, ACTIVATIONS).forward
        self.dropout, self.activation_dropout = Dropout(dropout), Dropout(activation_dropout)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """x [B, T, C], padding at the end [B, T] -> [B, T, C]"""
        return self.add(x, self.mixer(self.mixer_norm(x), padding))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """All that follows the mixer: the layer's input x and the mixer's output y -> the layer's output. All are
        [..., C]."""
        x = x + self.dropout(y)
        inner = self.activation_dropout(self.activation(self.fc1(self.ffn_norm(x))))
        return x + self.dropout(self.fc2(inner))

    def step(self, state, x: Tensor) -> Tensor:
        """One token [B, C] -> [B, C]"""
        return self.add(x, self.mixer.step(state, self.mixer_norm(x)))


class MixerStates(LayerStates):
    """The decoding state: the states of all mixers, and the position of the next token."""

    position = 0


class ActiveMemoryStack(nn.Module):
    """L layers over [B, T, C], and a LayerNorm.

    Sinusoids of positions are added to the input, and again before every layer, as in the authors' code.

    Args:
        num_layers: L
        mixer: a name in MIXERS
        ffn_dim, activation, activation_dropout: as of Layer
        dropout: as of Layer, and of the embeddings
        wavelengths: of the sinusoids, a name in WAVELENGTHS

    Raises:
        ValueError: C is odd, or a name is not known
    """

    def __init__(
        self,
        config: MixerConfig,
        num_layers: int,
        mixer: str,
        ffn_dim: int,
        activation: str = "relu",
        dropout: float = 0.0,
        activation_dropout: float = 0.0,
        wavelengths: str = "vaswani",
    ):
        super().__init__()
        if config.embed_dim % 2:
            raise ValueError(f"width {config.embed_dim} is odd, but half of a position's embedding are sines")
        choose("wavelengths", wavelengths, WAVELENGTHS)
        self.wavelengths = wavelengths
        self.layers = ModuleList(
            Layer(config.embed_dim, ffn_dim, own, activation, dropout, activation_dropout)
            for own in build_mixers(mixer, config, num_layers)
        )
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(config.embed_dim, NORM_EPSILON)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Embeddings x [B, T, C], padding at the end [B, T] -> [B, T, C]"""
        position = self.positions(torch.arange(x.size(1), device=x.device), x)
        x = self.dropout(x + position)
        for layer in self.layers:
            x = layer(x + position, padding)
        return self.norm(x)

    def positions(self, places: Tensor, like: Tensor) -> Tensor:
        """Places [P] -> sinusoids [P, C], like embeddings [..., C] in type"""
        return sinusoids(places, like.size(-1), like.dtype, self.wavelengths)

    def start(self, like: Tensor) -> MixerStates:
        """The state before the first token, for embeddings like [B, C]."""
        return MixerStates(layer.mixer.start(like) for layer in self.layers)

    def step(self, state: MixerStates, x: Tensor) -> Tensor:
        """The embedding of one token [B, C] -> [B, C]"""
        position = self.positions(torch.arange(state.position, state.position + 1, device=x.device), x)
        x = self.dropout(x + position)
        for layer, own in zip(self.layers, state, strict=True):
            x = layer.step(own, x + position)
        state.position += 1
        return self.norm(x)
