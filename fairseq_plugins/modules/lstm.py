"""An LSTM over an unbounded stream, torch's own, as the body of a language model.

B streams, M block length, C width, L layers.
"""

from torch import Tensor, nn


class LSTMState:
    """Hidden state and cell of every layer, both [L, B, C]; what decoding carries from step to step."""

    def __init__(self, hidden: Tensor, cell: Tensor):
        self.hidden, self.cell = hidden, cell

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] of the batch as row i."""
        self.hidden, self.cell = self.hidden.index_select(1, order), self.cell.index_select(1, order)


class LSTMStack(nn.Module):
    """L layers, with dropout between them. At the start of a stream all states are zeros."""

    def __init__(self, width: int, layers: int, dropout: float = 0.0):
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=between)

    def forward(self, x: Tensor, caches: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """One block.

        Args:
            x: embeddings [B, M, C]
            caches: what the block before returned: hidden states and cells, each [B, L, C]; [] at the start

        Returns:
            Outputs [B, M, C], and the caches for the next block.
        """
        state = self.start(caches, x[:, 0])
        y, after = self.lstm(x, (state.hidden, state.cell))
        return y, [part.transpose(0, 1) for part in after]

    def start(self, caches: list[Tensor], like: Tensor) -> LSTMState:
        """State before the first step of decoding, for embeddings like [B, C]."""
        if caches:
            return LSTMState(*(cache.transpose(0, 1).contiguous() for cache in caches))
        zeros = like.new_zeros(self.lstm.num_layers, len(like), self.lstm.hidden_size)
        return LSTMState(zeros, zeros)

    def step(self, state: LSTMState, x: Tensor) -> Tensor:
        """One embedding of each stream [B, C] -> output [B, C]"""
        y, (state.hidden, state.cell) = self.lstm(x.unsqueeze(1), (state.hidden, state.cell))
        return y.squeeze(1)
