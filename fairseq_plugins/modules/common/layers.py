"""Parts of a stack of layers that several families share. C width."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from torch import Tensor, nn

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.checks import choose
from fairseq_plugins.modules.common.dropout import Dropout

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class ModuleList(nn.ModuleList, Generic[ModuleT]):
    """nn.ModuleList, which tells type checkers the type of its items. To them, an item of torch's own is any Module."""

    if TYPE_CHECKING:

        def __init__(self, modules: Iterable[ModuleT] = ()): ...

        def __iter__(self) -> Iterator[ModuleT]: ...

        @overload
        def __getitem__(self, index: slice) -> "ModuleList[ModuleT]": ...

        @overload
        def __getitem__(self, index: int) -> ModuleT: ...

        def __getitem__(self, index): ...


class LayerStates(list):
    """One decoding state for each layer (see `contracts.DecodingState`)."""

    def reorder(self, order: Tensor) -> None:
        for state in self:
            state.reorder(order)


class FeedForward(nn.Module):
    """FF(x) = U ReLU(V x + b) + c, with dropout of the hidden layer, which has width `ffn_dim` (Vaswani et al., 2017;
    equation 5 of the all-attention paper). `activation` is a name in ACTIVATIONS."""

    def __init__(self, embed_dim: int, ffn_dim: int, dropout: float, activation: str = "relu"):
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, embed_dim)
        self.dropout, self.activation = Dropout(dropout), choose("activation", activation, ACTIVATIONS).forward

    def forward(self, x: Tensor) -> Tensor:
        """[..., C] -> [..., C]"""
        return self.fc2(self.dropout(self.activation(self.fc1(x))))


class ResidualLayer(nn.Module):
    """Attention and the sublayer that follows, if any. Each has a residual connection, and a LayerNorm before it
    (pre-norm) or after it (post-norm).

    Args:
        dim: C
        dropout: of the outputs of both
    """

    def __init__(
        self, attention: nn.Module, sublayer: nn.Module | None, dim: int, pre_norm: bool, dropout: float = 0.0
    ):
        super().__init__()
        self.pre_norm = pre_norm
        self.attention, self.attention_norm = attention, nn.LayerNorm(dim)
        self.sublayer = self.sublayer_norm = None
        if sublayer is not None:
            self.sublayer, self.sublayer_norm = sublayer, nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)

    def before(self, x: Tensor) -> Tensor:
        """The layer's input -> the attention's input, both [..., C]"""
        return self.attention_norm(x) if self.pre_norm else x

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """All that follows attention: the layer's input x and the attention's output y -> the layer's output. All are
        [..., C]."""
        x = x + self.dropout(y)
        if not self.pre_norm:
            x = self.attention_norm(x)
        if self.sublayer is None or self.sublayer_norm is None:
            return x
        if self.pre_norm:
            return x + self.dropout(self.sublayer(self.sublayer_norm(x)))
        return self.sublayer_norm(x + self.dropout(self.sublayer(x)))
