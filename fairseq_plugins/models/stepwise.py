"""Decoding token by token, as fairseq's search asks for it."""

import torch
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor

STATE = "stepwise"  # key in fairseq's incremental state


class StepwiseDecoder(FairseqIncrementalDecoder):
    """A decoder whose subclass says how to take in one token of each row of the batch, B rows.

    The state is whatever `start` makes, with a method reorder(order [B]): continue row order[i] as row i.
    """

    def embedding(self, token: Tensor) -> Tensor:
        """[B] -> [B, C]"""
        raise NotImplementedError

    def start(self, x: Tensor):
        """The state before a first token like x [B, C]."""
        raise NotImplementedError

    def step(self, state, x: Tensor) -> Tensor:
        """A token [B, C] -> the output after it [B, C]."""
        raise NotImplementedError

    def decode(self, tokens: Tensor, incremental_state: dict) -> Tensor:
        """Take in the tokens [B, n] that have not been seen, one at least; the output after the last [B, C]."""
        state, seen, _ = incremental_state.get(STATE, (None, 0, None))
        for token in tokens[:, seen:].unbind(1):
            x = self.embedding(token)
            if state is None:
                state = self.start(x)
            y = self.step(state, x)
        incremental_state[STATE] = state, tokens.size(1), len(tokens)
        return y

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        if STATE not in incremental_state:
            return
        state, seen, rows = incremental_state[STATE]
        if len(new_order) == rows and torch.equal(new_order, torch.arange(rows, device=new_order.device)):
            return  # as in every step with a single beam; states can be large
        state.reorder(new_order)
        incremental_state[STATE] = state, seen, len(new_order)
