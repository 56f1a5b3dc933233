"""The two sublayers of a Transformer's layer over a stream. C width."""

from torch import Tensor, nn

from fairseq_plugins.modules.common.dropout import Dropout


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
