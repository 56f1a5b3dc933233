"""The vectors that a convolution sees before the first token of a sequence and behind the last.

B batch, T length, C width. A sequence that is shorter than T has padding at its end.
"""

import torch
from torch import Tensor, nn


class ZeroEnds(nn.Module):
    """Zeros at both ends, `left` before a sequence and `right` behind it (the active-memory paper, section 3.1.1)."""

    def __init__(self, left: int, right: int, dim: int):
        super().__init__()
        self.left, self.right, self.dim = left, right, dim

    def vectors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors before a sequence [left, C], and those behind it [right, C]."""
        return like.new_zeros(self.left, self.dim), like.new_zeros(self.right, self.dim)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Put the sequences between their ends.

        Args:
            x: [B, T, C]
            padding: True where there is no token [B, T]; None if there is a token everywhere. The right end of a
                sequence follows its last token, and takes the place of the padding.

        Returns:
            [B, left + T + right, C]
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
        """The vectors before the first token in decoding [B, left, C], for tokens like [B, C]."""
        return self.vectors(like)[0].expand(len(like), -1, -1)


class PersistentEnds(ZeroEnds):
    """Learned vectors at both ends, which the paper calls persistent memory (section 3.1.2). All convolutions of a
    model share one set."""

    def __init__(self, left: int, right: int, dim: int):
        super().__init__(left, right, dim)
        self.before, self.behind = nn.Parameter(torch.empty(left, dim)), nn.Parameter(torch.empty(right, dim))
        for vectors in self.parameters():
            if len(vectors):
                nn.init.xavier_uniform_(vectors)

    def vectors(self, like):
        return self.before, self.behind
