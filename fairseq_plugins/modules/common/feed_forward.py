"""The feed-forward sublayer of a Transformer (Vaswani et al., 2017; equation 5 of the all-attention paper)."""

from torch import Tensor, nn

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.checks import choose
from fairseq_plugins.modules.common.dropout import Dropout


class FeedForward(nn.Module):
    """FF(x) = U ReLU(V x + b) + c, with dropout after the ReLU, or after another activation.

    Args:
        embed_dim: width of x
        ffn_dim: width of the hidden layer
        dropout: probability that an activation is dropped
        activation: a name in ACTIVATIONS
    """

    def __init__(self, embed_dim: int, ffn_dim: int, dropout: float, activation: str = "relu"):
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, embed_dim)
        self.dropout, self.activation = Dropout(dropout), choose("activation", activation, ACTIVATIONS).forward

    def forward(self, x: Tensor) -> Tensor:
        """[..., embed_dim] -> [..., embed_dim]"""
        return self.fc2(self.dropout(self.activation(self.fc1(x))))
