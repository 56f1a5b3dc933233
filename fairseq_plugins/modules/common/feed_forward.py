"""The feed-forward sublayer of a Transformer (Vaswani et al., 2017; equation 5 of the all-attention paper)."""

from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.modules.common.dropout import Dropout


class FeedForward(nn.Module):
    """FF(x) = U ReLU(V x + b) + c, with dropout after the ReLU.

    Args:
        embed_dim: width of x
        ffn_dim: width of the hidden layer
        dropout: probability that an activation is dropped
    """

    def __init__(self, embed_dim: int, ffn_dim: int, dropout: float):
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, embed_dim)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[..., embed_dim] -> [..., embed_dim]"""
        return self.fc2(self.dropout(F.relu(self.fc1(x))))
