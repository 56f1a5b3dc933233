"""Decoding step by step: a token is read once, and rows are copied only if their order changes."""

import torch
from torch import nn

from fairseq_plugins.models.common.decoder import StepwiseDecoder


class State:
    """The sum of the embeddings so far, and how often rows were copied."""

    def __init__(self, total):
        self.total, self.copies = total, 0

    def reorder(self, order):
        self.total, self.copies = self.total.index_select(0, order), self.copies + 1


class Adder(StepwiseDecoder):
    def __init__(self):
        super().__init__(dictionary=None)
        self.states, self.table = [], nn.Embedding.from_pretrained(torch.arange(9.0).unsqueeze(1))

    def embedding(self, token):
        return self.table(token)

    def start(self, x):
        self.states.append(State(torch.zeros_like(x)))
        return self.states[-1]

    def step(self, state, x):
        state.total = state.total + x
        return state.total


def test_a_prompt_is_taken_in_once_and_then_each_token():
    decoder, state = Adder(), {}
    tokens = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    assert decoder.decode(tokens[:, :3], state).flatten().tolist() == [6, 18]
    assert decoder.decode(tokens, state).flatten().tolist() == [10, 26]
    assert len(decoder.states) == 1


def test_rows_are_copied_only_where_their_order_changes():
    decoder, state = Adder(), {}
    decoder.reorder_incremental_state(state, torch.tensor([0, 1]))  # before there is anything
    tokens = torch.tensor([[1], [5]])
    decoder.decode(tokens, state)
    for order, copies, totals in (([0, 1], 0, [1, 5]), ([1, 1], 1, [5, 5]), ([0, 1], 1, [5, 5]), ([1], 2, [5])):
        decoder.reorder_incremental_state(state, torch.tensor(order))
        assert decoder.states[0].copies == copies and decoder.states[0].total.flatten().tolist() == totals
    assert decoder.decode(torch.tensor([[5, 2]]), state).flatten().tolist() == [7]
