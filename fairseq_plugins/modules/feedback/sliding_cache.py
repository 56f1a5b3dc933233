"""Attention to the last S positions of a stream, as parts of a recurrence (see `manual_backward`).

B batch, H heads, R = B * H, D width of a head, S positions that a step sees, W <= S positions that one layer sees, T
steps of a block, U uses: T times the number of layers that read the source.
"""

import torch
from torch import Tensor

from fairseq_plugins.modules.common.adaptive_span import divisor
from fairseq_plugins.modules.feedback.manual_backward import Attention, Source, aten, reorder_rows


def column(x: Tensor) -> Tensor:
    """[R, 1, n] -> [R, n, 1] with strides (n, 1, n). With strides (n, 1, 1), which mean the same, products with a batch
    of columns take five times as long on a CPU of several cores."""
    return x.reshape(len(x), -1).unsqueeze(1).transpose(1, 2)


class SlidingSource(Source):
    """A source that holds S positions from before the block and grows by one at every step. A step sees the last S.

    There is only one query a row and step, so attention takes the time of reading keys and values. Reading is fastest
    along the dimension that is summed over. So the forward pass stores keys position by position and values component
    by component. The backward pass sums over the other dimension of each, so it stores them the other way round.

    The backward pass stores the uses by absolute position. When the loop reaches a position, the gradient of its key is
    one product over all later uses. The gradients of the positions from before the block are one product after the
    loop.
    """

    def __init__(self, batch: int, heads: int, head_dim: int, span: int, capacity: int, layers: int, like: Tensor):
        """
        Args:
            span: S
            capacity: room for so many steps
            layers: how many layers read the source
            like: the buffers have its type and device
        """
        super().__init__()
        self.heads, self.span, self.capacity, self.layers = heads, span, capacity, layers
        rows, places = batch * heads, span + capacity
        self.keys = like.new_empty(rows, places, head_dim)  # [R, S + capacity, D]
        self.values = like.new_empty(rows, head_dim, places)  # [R, D, S + capacity]
        self.steps = 0
        self.laid_out_for_backward = False
        self.use_count = 0  # in the forward pass: so far; in the backward pass: those that it has not reached yet
        self.weights: Tensor  # [R, U, S + capacity], made by the first `record_weights`
        self.saved: list[Tensor] = []  # queries, gradients of scores and of outputs, each [R, U, ...]

    def fill(self, keys: Tensor, values: Tensor) -> None:
        """Write the S positions from before the block: keys and values [B * S, H * D]."""
        for buffer, x in ((self.keys, keys), (self.values.transpose(1, 2), values)):
            buffer[:, : self.span] = x.view(-1, self.span, self.heads, buffer.size(2)).transpose(1, 2).flatten(0, 1)

    def refill(self, rows: Tensor, key: Tensor, value: Tensor) -> None:
        """Write the same key and value [1, H * D] to all positions of some rows; rows [R] is True there."""
        heads = torch.arange(len(self.keys), device=rows.device)[rows] % self.heads
        self.keys[rows] = key.view(self.heads, 1, -1)[heads]
        self.values[rows] = value.view(self.heads, -1, 1)[heads]

    def append(self, key: Tensor, value: Tensor) -> None:
        """Write one more position: key and value [B, H * D]."""
        if self.steps == self.capacity:
            self.move_window_to_front()
        place = self.span + self.steps
        self.keys[:, place] = key.view(len(self.keys), -1)
        self.values[..., place] = value.view(len(self.keys), -1)
        self.steps += 1

    def move_window_to_front(self) -> None:
        """Move the last S positions to the front of the buffers. The others are overwritten from now on."""
        for buffer in (self.keys, self.values.transpose(1, 2)):
            buffer[:, : self.span] = buffer[:, self.steps : self.steps + self.span].clone()
        self.steps = 0

    def seen(self, width: int) -> slice:
        """Where in the buffers the last `width` positions lie at the present step."""
        return slice(self.steps + self.span - width, self.steps + self.span)

    def scores(self, query: Tensor, position: Tensor) -> Tensor:
        """query [R, 1, D] -> scores of the last W positions [R, 1, W]; position [R, W] is what their distance adds."""
        keys = self.keys[:, self.seen(position.size(1))]
        return torch.baddbmm(position.unsqueeze(2), keys, column(query)).transpose(1, 2)

    def mix(self, weights: Tensor) -> Tensor:
        """weights [R, 1, W] -> weighted sum of the last W values [R, 1, D]"""
        values = self.values[..., self.seen(weights.size(2))]
        return torch.bmm(values, column(weights)).transpose(1, 2)

    def lay_out_for_backward(self) -> None:
        """Store keys and values in the layout of the backward pass."""
        self.keys, self.values = self.keys.transpose(1, 2).contiguous(), self.values.transpose(1, 2).contiguous()
        self.laid_out_for_backward = True

    def scores_backward(self, dscores: Tensor, dposition: Tensor) -> Tensor:
        """Gradient of the scores [R, 1, W] -> gradient of the query [R, 1, D]; dposition [R, D] is what reaches the
        query through the distances."""
        keys = self.keys[..., self.seen(dscores.size(2))]
        return torch.baddbmm(dposition.unsqueeze(2), keys, column(dscores)).transpose(1, 2)

    def mix_backward(self, dy: Tensor, width: int) -> Tensor:
        """Gradient of the output [R, 1, D] -> gradient of the weights of the last W positions [R, 1, W]"""
        if not self.laid_out_for_backward:
            self.lay_out_for_backward()
        return torch.bmm(self.values[:, self.seen(width)], column(dy)).transpose(1, 2)

    def record_weights(self, weights: Tensor) -> None:
        """Save the weights [R, 1, W] of one more use, in the forward pass."""
        if self.use_count == 0:
            self.weights = weights.new_zeros(len(weights), self.capacity * self.layers, self.span + self.capacity)
        self.weights[:, self.use_count, self.seen(weights.size(2))] = weights[:, 0]
        self.use_count += 1

    def last_weights(self, width: int) -> Tensor:
        """The weights [R, 1, W] of the last use that the backward pass has not reached yet."""
        return self.weights[:, self.use_count - 1, self.seen(width)].unsqueeze(1).contiguous()

    def add_use(self, query: Tensor, dscores: Tensor, weights: Tensor, dy: Tensor) -> None:
        """Take the four tensors of one use, in the backward pass. The weights after dropout overwrite those that the
        forward pass saved."""
        if not self.saved:
            widths = query.size(2), self.weights.size(2), dy.size(2)
            self.saved = [query.new_zeros(len(query), self.use_count, width) for width in widths]
        self.use_count -= 1
        queries, score_grads, output_grads = self.saved
        seen = self.seen(dscores.size(2))
        queries[:, self.use_count], output_grads[:, self.use_count] = query[:, 0], dy[:, 0]
        score_grads[:, self.use_count, seen], self.weights[:, self.use_count, seen] = dscores[:, 0], weights[:, 0]

    def pop_kv_grads(self) -> tuple[Tensor, Tensor]:
        """Gradients of the last position's key and value, both [B, H * D], over all its uses. The position is then
        forgotten."""
        self.steps -= 1
        # a slice keeps a dimension of size 1, so BLAS takes the transpose as it is; an index would make a copy
        place = slice(self.span + self.steps, self.span + self.steps + 1)
        queries, score_grads, output_grads = (tensor[:, self.use_count :] for tensor in self.saved)
        key = torch.bmm(score_grads[..., place].transpose(1, 2), queries)
        value = torch.bmm(self.weights[:, self.use_count :, place].transpose(1, 2), output_grads)
        return key.view(len(key) // self.heads, -1), value.view(len(value) // self.heads, -1)

    def fill_grads(self) -> tuple[Tensor, Tensor]:
        """Gradients of the keys and values that `fill` wrote, both [B * S, H * D]. To be called after the loop. It
        frees all buffers before the next source computes its gradients."""
        queries, score_grads, output_grads = self.saved
        grads = [
            torch.bmm(rows[..., : self.span].transpose(1, 2), columns)
            for rows, columns in ((score_grads, queries), (self.weights, output_grads))
        ]
        del self.keys, self.values, self.weights, self.saved
        keys, values = (
            grad.unflatten(0, (-1, self.heads)).transpose(1, 2).reshape(-1, self.heads * grad.size(2)) for grad in grads
        )
        return keys, values

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] of the batch as row i."""
        self.keys, self.values = (reorder_rows(x, order, self.heads) for x in (self.keys, self.values))


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
        self.position_grad: Tensor | None = None
        self.mask_grad: Tensor | None = None

    def forward(self, x):
        query = self.split_heads(self.query.forward(x))
        weights = self.source.scores(query, torch.mm(query.squeeze(1), self.position)).softmax(-1)
        dropped = self.weight_dropout.forward(self.limit(weights)[0])
        if self.record:
            self.source.record_weights(weights)
            self.saved.append(query)
        return self.merge_heads(self.source.mix(dropped)).flatten(1)

    def limit(self, weights: Tensor) -> tuple[Tensor, Tensor | None]:
        """Weights [R, 1, W] -> masked weights that sum to one [R, 1, W], and what they were divided by [R, 1, 1].
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
        query, weights = self.saved.pop(), self.source.last_weights(self.position.size(1))
        limited, total = self.limit(weights)
        dropped = self.weight_dropout.recompute(limited)
        dy = self.split_heads(dy)
        dweights = self.weight_dropout.backward(self.source.mix_backward(dy, self.position.size(1)))
        if self.mask is not None and total is not None:
            dweights = (dweights - (dweights * limited).sum(-1, keepdim=True)) / total
            self.mask_grad = add(self.mask_grad, self.by_head(dweights * weights).sum(0))
            dweights = (self.by_head(dweights) * self.mask).view_as(weights)
        dscores = aten._softmax_backward_data(dweights, weights, -1, weights.dtype)
        self.source.add_use(query, dscores, dropped, dy)
        # one product a step, not one after the loop: that would need all gradients of scores once more, which are large
        self.position_grad = add(self.position_grad, torch.mm(query.squeeze(1).t(), dscores.squeeze(1)))
        dquery = self.source.scores_backward(dscores, torch.mm(dscores.squeeze(1), self.position.t()))
        return self.merge_heads(dquery).flatten(1)

    def gradients(self):
        yield from super().gradients()
        if self.position_grad is not None:
            yield self.position, self.position_grad.to(self.position)
        if self.mask is not None and self.mask_grad is not None:
            yield self.mask, self.mask_grad.to(self.mask)


def add(total: Tensor | None, x: Tensor) -> Tensor:
    """total + x, where None is an empty total. A total is of float32 at least."""
    if total is None:
        return x.to(torch.promote_types(x.dtype, torch.float32))
    return total.add_(x)
