"""Attention to keys and values, as parts of a recurrence (see `backward`).

B batch, H heads, R = B * H, D width of a head, C = H * D, S positions attended to, W <= S positions that one
layer sees.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fairseq_plugins.modules.common.adaptive_span import divisor
from fairseq_plugins.modules.feedback.engine.backward import Linear, Part, aten
from fairseq_plugins.modules.feedback.engine.caches import Source
from fairseq_plugins.modules.feedback.engine.sliding_cache import SlidingSource


class Attention(Part):
    """Attention of one query [B, C] to a source.

    With beam > 1 the source has one row for every `beam` neighbouring rows of queries, which attend to it together.

    Attributes:
        output_grad_slot: returns where the gradient of the output is to be written [B, C]; None: to a new tensor
    """

    output_grad_slot: Callable[[], Tensor] | None = None

    def __init__(self, query: Linear, source: Source, weight_dropout: Part, heads: int, record: bool, beam: int = 1):
        self.query, self.source, self.weight_dropout, self.record = query, source, weight_dropout, record
        self.heads, self.beam = heads, beam
        self.weights: Tensor  # [B / beam * heads, beam, S] of the latest step
        self.saved: list = []  # activations of each step, for the backward pass

    def split_heads(self, x: Tensor) -> Tensor:
        """[B, C] -> [B / beam * heads, beam, D]"""
        return (
            x.view(-1, self.beam, self.heads, x.size(1) // self.heads)
            .transpose(1, 2)
            .reshape(-1, self.beam, x.size(1) // self.heads)
        )

    def merge_heads(self, x: Tensor) -> Tensor:
        """[B / beam * heads, beam, D] -> [B, heads, D]"""
        return x.view(-1, self.heads, self.beam, x.size(2)).transpose(1, 2).reshape(-1, self.heads, x.size(2))

    def forward(self, x):
        query = self.split_heads(self.query.forward(x))
        keys, values, mask = self.source.window()
        keys = keys.transpose(1, 2)
        scores = torch.bmm(query, keys) if mask is None else torch.baddbmm(mask, query, keys)
        self.weights = scores.softmax(-1)
        dropped = self.weight_dropout.forward(self.weights)
        if self.record:
            self.saved.append((query, self.weights))
        return self.merge_heads(torch.bmm(dropped, values)).flatten(1)

    def backward(self, dy):
        return self.query.backward(self.query_grad(dy))

    def backward_onto(self, dy, base):
        return self.query.backward_onto(self.query_grad(dy), base)

    def query_grad(self, dy: Tensor) -> Tensor:
        """Gradient of the output [B, C] -> gradient of the query [B, C]"""
        query, weights = self.saved.pop()
        keys, values, _ = self.source.window()
        dy = self.split_heads(dy)
        dweights = self.weight_dropout.backward(torch.bmm(dy, values.transpose(1, 2)))
        dscores = aten._softmax_backward_data(dweights, weights, -1, weights.dtype)
        self.source.add_grads(query, dscores, self.weight_dropout.recompute(weights), dy)
        return self.merge_heads(torch.bmm(dscores, keys)).flatten(1)

    def gradients(self):
        return self.query.gradients()


class WindowAttention(Attention):
    """Attention of one layer to the last W positions, with learned relative positions on the keys and a soft span for
    each head.

    Args:
        position: relative positions [D, W], scaled as the keys are, the last column that of the position before
        mask: the spans [H, W], or None. Masked weights are divided by their sum (Sukhbaatar et al., 2019)
    """

    source: SlidingSource

    def __init__(self, query, source, weight_dropout, heads, record, position: Tensor, mask: Tensor | None):
        super().__init__(query, source, weight_dropout, heads, record)
        self.position, self.mask = position, mask
        self.mask_grad: Tensor | None = None
        if record:
            self.buffers, self.layer = source.reserve(position.size(1))

    def slot(self, buffer: Tensor) -> Tensor:
        """The part of a buffer of `Saved` that is this layer's at the present step, [R, ...]."""
        return buffer[self.source.steps, self.layer]

    def forward(self, x):
        if not self.record:
            query = self.split_heads(self.query.forward(x))
            weights = self.scores(query).softmax(-1)
        else:
            if not self.source.steps and not self.layer:
                self.buffers.allocate(self.source.keys[:, 0])
            out = self.slot(self.buffers.queries)
            self.query.forward_into(x, out.view(len(x), -1))
            query, weights = out.unsqueeze(1), self.slot(self.buffers.weights).unsqueeze(1)
            aten._softmax.out(self.scores(query), -1, False, out=weights)
        self.weights, _ = self.limit(weights)
        dropped = self.weight_dropout.forward(self.weights).to(weights.dtype)
        return self.merge_heads(self.source.mix(dropped)).flatten(1)

    def scores(self, query: Tensor) -> Tensor:
        """query [R, 1, D] -> scores [R, 1, W]"""
        return self.source.scores(query, torch.mm(query.squeeze(1), self.position))

    def output_grad_slot(self) -> Tensor:
        """Where the gradient of the output is to be written [B, C]."""
        last = self.source.steps == self.buffers.steps - 1
        if last and self.layer == self.buffers.layers - 1:
            self.buffers.allocate_gradients()
        slot = self.slot(self.buffers.output_grads)
        return slot.view(-1, self.heads * slot.size(1))

    def limit(self, weights: Tensor) -> tuple[Tensor, Tensor | None]:
        """Weights [R, 1, W] -> masked weights that sum to one [R, 1, W], and their divisor [R, 1, 1].
        Without a mask the second is None."""
        if self.mask is None:
            return weights, None
        masked = self.by_head(weights) * self.mask
        total = divisor(masked.sum(-1, keepdim=True))
        return (masked / total).view_as(weights), total.view(-1, 1, 1)

    def by_head(self, x: Tensor) -> Tensor:
        """[R, 1, W] -> a view [B, H, W]"""
        return x.view(-1, self.heads, x.size(-1))

    def query_grad(self, dy):
        query, weights = (self.slot(x).unsqueeze(1) for x in (self.buffers.queries, self.buffers.weights))
        dscores = self.slot(self.buffers.score_grads).unsqueeze(1)
        limited, total = self.limit(weights)
        dweights = self.weight_dropout.backward(self.source.mix_backward(self.split_heads(dy), self.buffers.width))
        if self.mask is not None and total is not None:
            dweights = (dweights - (dweights * limited).sum(-1, keepdim=True)) / total
            self.mask_grad = add(self.mask_grad, self.by_head(dweights * weights).sum(0))
            dweights = (self.by_head(dweights) * self.mask).view_as(weights).to(weights.dtype)
        aten._softmax_backward_data.out(dweights, weights, -1, weights.dtype, grad_input=dscores)
        self.weight_dropout.recompute(limited, out=weights)
        dquery = self.source.scores_backward(dscores, torch.mm(dscores.squeeze(1), self.position.t()))
        return self.merge_heads(dquery).flatten(1)

    def gradients(self):
        yield from super().gradients()
        queries, dscores = self.buffers.queries[:, self.layer], self.buffers.score_grads[:, self.layer]
        yield self.position, sum_of_steps(torch.bmm(queries.transpose(1, 2), dscores)).to(self.position)
        if self.mask is not None and self.mask_grad is not None:
            yield self.mask, self.mask_grad.to(self.mask)


def sum_of_steps(x: Tensor) -> Tensor:
    """The sum over the first dimension, in float32 at least."""
    return x.sum(0, dtype=torch.promote_types(x.dtype, torch.float32))


def add(total: Tensor | None, x: Tensor) -> Tensor:
    """total + x, where None is an empty total. A total is of float32 at least."""
    if total is None:
        return x.to(torch.promote_types(x.dtype, torch.float32))
    return total.add_(x)
