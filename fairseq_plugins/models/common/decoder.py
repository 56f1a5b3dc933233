"""Decoders that read a whole block at once, or token by token as fairseq's search does.

B streams or rows of a batch, M block length, C width, V vocabulary.
"""

from typing import Any

import torch
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from fairseq_plugins.models.common.int8 import Int8Output
from fairseq_plugins.modules.common import few_rows
from fairseq_plugins.modules.common.adaptive_io import AdaptiveSoftmax
from fairseq_plugins.modules.common.dropout import Dropout
from fairseq_plugins.modules.common.stream_memory import StreamMemory

UNBOUNDED = 2**31 - 1

STATE = "stepwise"  # key in fairseq's incremental state


class StepwiseDecoder(Int8Output, FairseqIncrementalDecoder):
    """A decoder that reads one token of each of the B rows of a batch at a time; a subclass reads it.

    The state is an object that ``start`` makes. It has a method reorder(order [B]), which continues row order[i] as row
    i.
    """

    def embedding(self, token: Tensor) -> Tensor:
        """[B] -> [B, C]"""
        raise NotImplementedError

    def start(self, x: Tensor):
        """The state before the first token; x [B, C] is the embedding of that token."""
        raise NotImplementedError

    def step(self, state, x: Tensor) -> Tensor:
        """The embedding of a token [B, C] -> the output after it [B, C]."""
        raise NotImplementedError

    def decode(self, tokens: Tensor, incremental_state: dict) -> Tensor:
        """Read the tokens of [B, n] that were not read before, at least one. Returns the output after the last [B,
        C]."""
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
            return  # the order is unchanged, as always with one beam; copying a state can be slow
        state.reorder(new_order)
        incremental_state[STATE] = state, seen, len(new_order)


class StreamingDecoder(StepwiseDecoder):
    """Embeddings, a body, and an output layer.

    Args:
        embed: tokens [B, M] -> [B, M, C]
        body: a ``StreamBody`` (modules/contracts.py)
        output: [..., C] -> [..., V], or an AdaptiveSoftmax
    """

    body: Any

    def __init__(self, dictionary, embed: nn.Module, body: nn.Module, output: nn.Module, embed_dropout, output_dropout):
        super().__init__(dictionary)
        self.embed, self.body, self.output = embed, body, output
        self.embed_dropout, self.output_dropout = Dropout(embed_dropout), Dropout(output_dropout)

    def forward(self, tokens: Tensor, encoder_out=None, incremental_state=None, memory: StreamMemory | None = None):
        """tokens [B, M] -> (logits [B, M, V], or features [B, M, C] with an adaptive softmax; extras for fairseq).

        With an incremental state: the logits after the last token [B, 1, V]. Tokens that were not read before are read
        one by one.
        """
        if incremental_state is not None:
            return self.logits(self.decode(tokens, incremental_state)).unsqueeze(1), {"attn": None}
        features, extra = self.extract_features(tokens, memory=memory)
        if isinstance(self.output, AdaptiveSoftmax):
            return features, {**extra, "features": True}
        return self.output(features), extra

    def extract_features(self, tokens, encoder_out=None, memory: StreamMemory | None = None):
        """tokens [B, M] -> [B, M, C]. Advances the memory; without a memory the streams start here."""
        before = None
        if memory is not None:
            memory.claim(self)
            before = memory.read(self.body.memory_type)
        y, after = self.body(self.embed_dropout(self.embed(tokens)), before)
        if memory is not None:
            memory.advance(after, tokens.size(1))
        return self.output_dropout(y), {"attn": None}

    def output_layer(self, features: Tensor) -> Tensor:
        return self.logits(features)

    def logits(self, features: Tensor) -> Tensor:
        """[..., C] -> logits of all words [..., V]; an adaptive softmax gives log-probabilities, which are logits
        too."""
        if isinstance(self.output, AdaptiveSoftmax):
            return self.output.log_probs(features)
        return few_rows.linear(self.output, features)

    def embedding(self, token):
        return self.embed_dropout(self.embed(token))

    def start(self, x):
        return self.body.start(None, x)

    def step(self, state, x):
        return self.output_dropout(self.body.step(state, x))

    def max_positions(self) -> int:
        return UNBOUNDED
