"""What a convolution finds before the first token of a sequence and behind the last.

B batch, T length, C width. Sequences of a batch that are shorter than T have their padding at the end.
"""

import torch
from torch import Tensor, nn


class ZeroEnds(nn.Module):
    """Zeros (the active-memory paper, section 3.1.1).

    Args:
        left, right: how many
        dim: C
    """

    def __init__(self, left: int, right: int, dim: int):
        super().__init__()
        self.left, self.right, self.dim = left, right, dim

    def vectors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """[left, C] and [right, C]"""
        return like.new_zeros(self.left, self.dim), like.new_zeros(self.right, self.dim)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """The sequences between their ends, [B, T, C] -> [B, left + T + right, C].

        Args:
            padding: True where no token is [B, T]. What lies there is left out; a sequence's right end follows its own
                last token.
        """
        before, behind = (vectors.expand(len(x), -1, -1) for vectors in self.vectors(x))
        if padding is None or not self.right:
            return torch.cat([before, x, behind], dim=1)
        length, lengths = x.size(1), (~padding).sum(1, keepdim=True)
        place = torch.arange(length + self.right, device=x.device)
        source = torch.where(place < lengths, place, (place - lengths + length).clamp(max=length + self.right - 1))
        rest = torch.cat([x, behind], dim=1).gather(1, source.unsqueeze(-1).expand(-1, -1, self.dim))
        return torch.cat([before, rest], dim=1)

    def start(self, like: Tensor) -> Tensor:
        """What comes before the first of B tokens that follow one by one, each [B, C] -> [B, left, C]"""
        return self.vectors(like)[0].expand(len(like), -1, -1)


class PersistentEnds(ZeroEnds):
    """Learned vectors, persistent memory (section 3.1.2). One set serves all convolutions of a model."""

    def __init__(self, left: int, right: int, dim: int):
        super().__init__(left, right, dim)
        self.before, self.behind = nn.Parameter(torch.empty(left, dim)), nn.Parameter(torch.empty(right, dim))
        for vectors in self.parameters():
            if len(vectors):
                nn.init.xavier_uniform_(vectors)

    def vectors(self, like):
        return self.before, self.behind
