"""An LSTM over an unbounded stream, torch's own, as the body of a language model.

B streams, M block length, C width, L layers.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence


class LSTMMemory(NamedTuple):
    """Hidden state and cell of every layer after a block, both [B, L, C]."""

    hidden: Tensor
    cell: Tensor

    def tensors(self) -> list[Tensor]:
        return list(self)

    @classmethod
    def from_tensors(cls, tensors: list[Tensor]) -> "LSTMMemory":
        if len(tensors) != 2:
            raise ValueError(f"the memory of an LSTM is 2 tensors, not {len(tensors)}")
        return cls(*tensors)


@dataclass
class LSTMState:
    """The decoding state: hidden state and cell of every layer, both [L, B, C]."""

    hidden: Tensor
    cell: Tensor

    def reorder(self, order: Tensor) -> None:
        self.hidden, self.cell = self.hidden.index_select(1, order), self.cell.index_select(1, order)


class LSTMStack(nn.Module):
    """L layers over a stream [B, M, C], a `contracts.EpisodeBody`, with dropout between them. At the start of a stream
    all states are zeros."""

    memory_type = LSTMMemory

    def __init__(self, width: int, layers: int, dropout: float = 0.0):
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=between)

    def forward(
        self, x: Tensor, memory: LSTMMemory | None = None, padding: Tensor | None = None
    ) -> tuple[Tensor, LSTMMemory]:
        """One block (see `contracts.EpisodeBody`): x [B, M, C], padding [B] -> [B, M, C], and the memory after it."""
        state = self.start(memory, x[:, 0])
        y, after = self.lstm(x, (state.hidden, state.cell))
        if padding is not None:
            after = self.states_before(x, padding, state)
        return y, LSTMMemory(*(part.detach().transpose(0, 1) for part in after))

    @torch.no_grad()
    def states_before(self, x: Tensor, padding: Tensor, state: LSTMState) -> tuple[Tensor, Tensor]:
        """Hidden states and cells [L, B, C] before the padding at the end of each row."""
        lengths = x.size(1) - padding
        rows = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        _, after = self.lstm(rows, (state.hidden, state.cell))
        empty = lengths.eq(0).view(1, -1, 1)
        hidden, cell = (torch.where(empty, old, new) for old, new in zip((state.hidden, state.cell), after))
        return hidden, cell

    def start(self, memory: LSTMMemory | None, like: Tensor) -> LSTMState:
        if memory is not None:
            return LSTMState(*(part.transpose(0, 1).contiguous() for part in memory))
        zeros = like.new_zeros(self.lstm.num_layers, len(like), self.lstm.hidden_size)
        return LSTMState(zeros, zeros)

    def step(self, state: LSTMState, x: Tensor) -> Tensor:
        y, (state.hidden, state.cell) = self.lstm(x.unsqueeze(1), (state.hidden, state.cell))
        return y.squeeze(1)

    def restart(self, state: LSTMState, rows: Tensor) -> None:
        state.hidden, state.cell = (x.masked_fill(rows.unsqueeze(1), 0) for x in (state.hidden, state.cell))
