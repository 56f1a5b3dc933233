"""Attention to the last S positions of a stream, as parts of a recurrence (see `deferred`).

B batch, H heads, R = B * H, D width of a head, S positions seen by a step, T steps of a block, U uses: T times the
layers that read the source.
"""

import torch
from torch import Tensor

from fairseq_plugins.modules.common.adaptive_span import divisor
from fairseq_plugins.modules.feedback.manual_backward import Attention, Source, aten, reorder_rows


def column(x: Tensor) -> Tensor:
    """[R, 1, n] -> [R, n, 1], strided (n, 1, n): products with a batch of columns strided (n, 1, 1), which would be the
    same to read, take five times as long on a CPU of several cores."""
    return x.reshape(len(x), -1).unsqueeze(1).transpose(1, 2)


class SlidingSource(Source):
    """A source of S positions from before the block, to which every step adds one; a step sees the last S.

    There is one query a row at a time, so attention is bound by reading keys and values, and that is fastest along the
    dimension that is summed over. So the forward pass keeps keys position by position and values component by
    component, and the backward pass, which sums over the other dimension of each, the other way round.

    In the backward pass the uses are kept by absolute position. So when the loop reaches a position, its gradient is
    one product over all later uses, and that of the positions before the block one product after the loop.
    """

    def __init__(self, batch: int, heads: int, head_dim: int, span: int, capacity: int, layers: int, like: Tensor):
        """Room for S positions and `capacity` more, which so many layers read."""
        super().__init__()
        self.heads, self.span, self.capacity, self.layers = heads, span, capacity, layers
        rows, places = batch * heads, span + capacity
        self.keys = like.new_empty(rows, places, head_dim)  # [R, S + capacity, D]
        self.values = like.new_empty(rows, head_dim, places)  # [R, D, S + capacity]
        self.steps = 0
        self.turned = False
        self.uses = 0  # those of the forward pass that the backward pass has not come to
        self.weights: Tensor | None = None  # [R, U, S + capacity]
        self.kept: list[Tensor] | None = None  # queries, gradients of scores and of outputs, each [R, U, ...]

    def fill(self, keys: Tensor, values: Tensor) -> None:
        """The S positions from before the block, keys and values [B * S, H * D]"""
        for buffer, x in ((self.keys, keys), (self.values.transpose(1, 2), values)):
            buffer[:, : self.span] = x.view(-1, self.span, self.heads, buffer.size(2)).transpose(1, 2).flatten(0, 1)

    def append(self, key: Tensor, value: Tensor) -> None:
        """key and value [B, H * D]"""
        if self.steps == self.capacity:
            self.forget()
        place = self.span + self.steps
        self.keys[:, place] = key.view(len(self.keys), -1)
        self.values[..., place] = value.view(len(self.keys), -1)
        self.steps += 1

    def forget(self) -> None:
        """Move the last S positions to the front of the buffers."""
        for buffer in (self.keys, self.values.transpose(1, 2)):
            buffer[:, : self.span] = buffer[:, self.steps : self.steps + self.span].clone()
        self.steps = 0

    def seen(self, width: int) -> slice:
        """Where the last positions lie at the present step."""
        return slice(self.steps + self.span - width, self.steps + self.span)

    def scores(self, query: Tensor, position: Tensor) -> Tensor:
        """query [R, 1, D] and the scores of the last W positions by their distance [R, W] -> scores [R, 1, W]"""
        keys = self.keys[:, self.seen(position.size(1))]
        return torch.baddbmm(position.unsqueeze(2), keys, column(query)).transpose(1, 2)

    def mix(self, weights: Tensor) -> Tensor:
        """weights [R, 1, W] -> the values' sum [R, 1, D]"""
        values = self.values[..., self.seen(weights.size(2))]
        return torch.bmm(values, column(weights)).transpose(1, 2)

    def turn(self) -> None:
        """To the layout of the backward pass."""
        self.keys, self.values = self.keys.transpose(1, 2).contiguous(), self.values.transpose(1, 2).contiguous()
        self.turned = True

    def scores_backward(self, dscores: Tensor, dposition: Tensor) -> Tensor:
        """Gradient of scores [R, 1, W] and what reaches the query through the distances [R, D] -> that of the query
        [R, 1, D]."""
        keys = self.keys[..., self.seen(dscores.size(2))]
        return torch.baddbmm(dposition.unsqueeze(2), keys, column(dscores)).transpose(1, 2)

    def mix_backward(self, dy: Tensor, width: int) -> Tensor:
        """Gradient of the output [R, 1, D] -> that of the weights of the last W positions [R, 1, W]"""
        if not self.turned:
            self.turn()
        return torch.bmm(self.values[:, self.seen(width)], column(dy)).transpose(1, 2)

    def keep(self, weights: Tensor) -> None:
        """In the forward pass, the weights [R, 1, W] of one more use."""
        if self.weights is None:
            self.weights = weights.new_zeros(len(weights), self.capacity * self.layers, self.span + self.capacity)
        self.weights[:, self.uses, self.seen(weights.size(2))] = weights[:, 0]
        self.uses += 1

    def last_kept(self, width: int) -> Tensor:
        """In the backward pass, the weights [R, 1, W] of the latest use that it has not been through."""
        return self.weights[:, self.uses - 1, self.seen(width)].unsqueeze(1).contiguous()

    def add_use(self, query: Tensor, dscores: Tensor, weights: Tensor, dy: Tensor) -> None:
        """In the backward pass; the weights after dropout take the place of those that were kept."""
        if self.kept is None:
            widths = query.size(2), self.weights.size(2), dy.size(2)
            self.kept = [query.new_zeros(len(query), self.uses, width) for width in widths]
        self.uses -= 1
        queries, score_grads, output_grads = self.kept
        seen = self.seen(dscores.size(2))
        queries[:, self.uses], output_grads[:, self.uses] = query[:, 0], dy[:, 0]
        score_grads[:, self.uses, seen], self.weights[:, self.uses, seen] = dscores[:, 0], weights[:, 0]

    def pop(self) -> tuple[Tensor, Tensor]:
        """Gradients of the last position's key and value, both [B, H * D], by all who saw it."""
        self.steps -= 1
        # a slice, whose transpose is a batch of matrices to BLAS; rows picked by an index are copied one by one
        place = slice(self.span + self.steps, self.span + self.steps + 1)
        queries, score_grads, output_grads = (kept[:, self.uses :] for kept in self.kept)
        key = torch.bmm(score_grads[..., place].transpose(1, 2), queries)
        value = torch.bmm(self.weights[:, self.uses :, place].transpose(1, 2), output_grads)
        return tuple(grad.view(len(grad) // self.heads, -1) for grad in (key, value))

    def filled(self) -> tuple[Tensor, Tensor]:
        """After the loop: gradients of the keys and values that it was filled with, both [B * S, H * D]. What was kept
        for them is freed before another source makes its own."""
        queries, score_grads, output_grads = self.kept
        grads = [
            torch.bmm(rows[..., : self.span].transpose(1, 2), columns)
            for rows, columns in ((score_grads, queries), (self.weights, output_grads))
        ]
        self.keys = self.values = self.weights = self.kept = None
        return tuple(
            grad.unflatten(0, (-1, self.heads)).transpose(1, 2).reshape(-1, self.heads * grad.size(2)) for grad in grads
        )

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] of the batch as row i."""
        self.keys, self.values = (reorder_rows(x, order, self.heads) for x in (self.keys, self.values))


class WindowAttention(Attention):
    """Attention to a window with learned relative positions on the keys and a soft limit for every head.

    position [D, S] is scaled as the keys are, its last column that of the position before; mask [H, S] the weights'
    limit, or None. Masked weights are divided by their sum (Sukhbaatar et al., 2019). S is this attention's own, and
    may be less than the source's.
    """

    def __init__(self, query, source, weight_dropout, heads, record, position: Tensor, mask: Tensor | None):
        super().__init__(query, source, weight_dropout, heads, record)
        self.position, self.mask = position, mask
        self.position_grad = self.mask_grad = None

    def forward(self, x):
        query = self.split_heads(self.query.forward(x))
        weights = self.source.scores(query, torch.mm(query.squeeze(1), self.position)).softmax(-1)
        dropped = self.weight_dropout.forward(self.limit(weights)[0])
        if self.record:
            self.source.keep(weights)
            self.kept.append(query)
        return self.merge_heads(self.source.mix(dropped)).flatten(1)

    def limit(self, weights: Tensor) -> tuple[Tensor, Tensor | None]:
        """Weights [R, 1, S] -> masked weights that sum to one, and the sum they were divided by [R, 1, 1]."""
        if self.mask is None:
            return weights, None
        masked = self.by_head(weights) * self.mask
        total = divisor(masked.sum(-1, keepdim=True))
        return (masked / total).view_as(weights), total.view(-1, 1, 1)

    def by_head(self, x: Tensor) -> Tensor:
        """[R, 1, S] -> [B, H, S]"""
        return x.view(-1, self.heads, x.size(-1))

    def backward(self, dy):
        query, weights = self.kept.pop(), self.source.last_kept(self.position.size(1))
        limited, total = self.limit(weights)
        dropped = self.weight_dropout.again(limited)
        dy = self.split_heads(dy)
        dweights = self.weight_dropout.backward(self.source.mix_backward(dy, self.position.size(1)))
        if self.mask is not None:
            dweights = (dweights - (dweights * limited).sum(-1, keepdim=True)) / total
            self.mask_grad = add(self.mask_grad, self.by_head(dweights * weights).sum(0))
            dweights = (self.by_head(dweights) * self.mask).view_as(weights)
        dscores = aten._softmax_backward_data(dweights, weights, -1, weights.dtype)
        self.source.add_use(query, dscores, dropped, dy)
        # a product a step, not one after the loop: gradients of scores are large, and kept by the source already
        self.position_grad = add(self.position_grad, torch.mm(query.squeeze(1).t(), dscores.squeeze(1)))
        dquery = self.source.scores_backward(dscores, torch.mm(dscores.squeeze(1), self.position.t()))
        return self.query.backward(self.merge_heads(dquery).flatten(1))

    def gradients(self):
        yield from super().gradients()
        yield self.position, self.position_grad.to(self.position)
        if self.mask is not None:
            yield self.mask, self.mask_grad.to(self.mask)


def add(total: Tensor | None, x: Tensor) -> Tensor:
    """The total, in single precision at least, and x; None is the empty total."""
    if total is None:
        return x.to(torch.promote_types(x.dtype, torch.float32))
    return total.add_(x)
