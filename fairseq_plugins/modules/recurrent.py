"""An LSTM or a GRU over an unbounded stream, torch's own, as the body of a language model or an agent.

B streams, M block length, C width, L layers.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence


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


class GRUMemory(NamedTuple):
    """The hidden state of every layer after a block [B, L, C]."""

    hidden: Tensor

    def tensors(self) -> list[Tensor]:
        return list(self)

    @classmethod
    def from_tensors(cls, tensors: list[Tensor]) -> "GRUMemory":
        if len(tensors) != 1:
            raise ValueError(f"the memory of a GRU is 1 tensor, not {len(tensors)}")
        return cls(*tensors)


States = tuple[Tensor, ...]  # of every layer, as a memory has them, but [L, B, C]


@dataclass
class RecurrentState:
    """The decoding state."""

    states: States

    def reorder(self, order: Tensor) -> None:
        self.states = tuple(state.index_select(1, order) for state in self.states)


class RecurrentStack(nn.Module):
    """L layers over a stream [B, M, C], a `contracts.EpisodeBody`. At the start of a stream all states are zeros. A
    subclass has its network."""

    memory_type: type[LSTMMemory] | type[GRUMemory]
    layers: int

    def run(self, x: Tensor | PackedSequence, states: States) -> tuple[Any, States]:
        """x [B, M, C], or packed rows -> its outputs, and the states after it."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, memory: LSTMMemory | GRUMemory | None = None, padding: Tensor | None = None
    ) -> tuple[Tensor, LSTMMemory | GRUMemory]:
        """One block (see `contracts.EpisodeBody`): x [B, M, C], padding [B] -> [B, M, C], and the memory after it."""
        before = self.start(memory, x[:, 0]).states
        y, after = self.run(x, before)
        if padding is not None:
            after = self.states_before(x, padding, before)
        return y, self.memory_type(*(state.detach().transpose(0, 1) for state in after))

    @torch.no_grad()
    def states_before(self, x: Tensor, padding: Tensor, before: States) -> States:
        """The states before the padding at the end of each row."""
        lengths = x.size(1) - padding
        rows = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        _, after = self.run(rows, before)
        empty = lengths.eq(0).view(1, -1, 1)
        return tuple(torch.where(empty, old, new) for old, new in zip(before, after))

    def start(self, memory: LSTMMemory | GRUMemory | None, like: Tensor) -> RecurrentState:
        if memory is not None:
            return RecurrentState(tuple(state.transpose(0, 1).contiguous() for state in memory))
        zeros = like.new_zeros(self.layers, *like.shape)
        return RecurrentState((zeros,) * len(self.memory_type._fields))

    def step(self, state: RecurrentState, x: Tensor) -> Tensor:
        y, state.states = self.run(x.unsqueeze(1), state.states)
        return y.squeeze(1)

    def restart(self, state: RecurrentState, rows: Tensor) -> None:
        state.states = tuple(part.masked_fill(rows.unsqueeze(1), 0) for part in state.states)


class LSTMStack(RecurrentStack):
    """LSTMs over a stream [B, M, C], with dropout between them."""

    memory_type = LSTMMemory

    def __init__(self, width: int, layers: int, dropout: float = 0.0):
        super().__init__()
        self.layers = layers
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)

    def run(self, x: Tensor | PackedSequence, states: States) -> tuple[Any, States]:
        return self.lstm(x, states)


class GRUStack(RecurrentStack):
    """GRUs over a stream [B, M, C]."""

    memory_type = GRUMemory

    def __init__(self, width: int, layers: int):
        super().__init__()
        self.layers = layers
        self.gru = nn.GRU(width, width, layers, batch_first=True)

    def run(self, x: Tensor | PackedSequence, states: States) -> tuple[Any, States]:
        y, after = self.gru(x, *states)
        return y, (after,)
