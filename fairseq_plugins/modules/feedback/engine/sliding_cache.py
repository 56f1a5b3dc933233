"""Keys and values of the last S positions of a stream, and the gradients that all attentions to them pass back.

B batch, H heads, R = B * H, D width of a head, S positions that a step sees, W <= S positions that one layer sees, T
steps of a block.
"""

from collections.abc import Iterator
from functools import cache, reduce

import torch
from torch import Tensor
from torch.nn import functional as F

from fairseq_plugins.modules.common.compiled import processor
from fairseq_plugins.modules.feedback.engine.caches import Source, reorder_rows


def column(x: Tensor) -> Tensor:
    """[R, 1, n] -> [R, n, 1] with strides (n, 1, n). With strides (n, 1, 1), which mean the same, products with a batch
    of columns take five times as long on a CPU of several cores."""
    return x.reshape(len(x), -1).unsqueeze(1).transpose(1, 2)


class Saved:
    """Buffers saved for the backward pass, of all attentions to a source that see as many positions.

    A step writes into its own part of each buffer, so nothing is copied. The gradient of a key is a sum over all later
    attentions to it. Rows of W weights begin with each step's oldest position, so a position lies one column further to
    the left a step later. A view with another stride makes these places one column.

    L layers that see W positions.

    Attributes:
        queries, output_grads: [T, L, R, D]
        weights: [T, L, R, W], after dropout in steps that the backward pass has reached
        score_grads: [T, L, R, W]
    """

    queries: Tensor
    output_grads: Tensor
    weights: Tensor
    score_grads: Tensor

    def __init__(self, width: int, steps: int):
        self.width, self.steps, self.layers = width, steps, 0

    def allocate(self, like: Tensor) -> None:
        """Make the buffers of the forward pass; like [R, D]."""
        shape = self.steps, self.layers, len(like)
        self.queries, self.weights = like.new_empty(*shape, like.size(1)), like.new_empty(*shape, self.width)

    def allocate_gradients(self) -> None:
        self.output_grads, self.score_grads = torch.empty_like(self.queries), torch.empty_like(self.weights)

    def free(self) -> None:
        del self.queries, self.output_grads, self.weights, self.score_grads

    def column(self, x: Tensor, first: int, steps: int) -> Tensor:
        """The position before step `first`, the newest that the step sees, in x [T, L, R, W] -> [L * R, steps, 1]: of
        this step and of those after it."""
        rows, stride = x[0, ..., 0].numel(), x.stride(0)
        offset = x.storage_offset() + first * stride + self.width - 1
        return x.as_strided((rows, steps, 1), (self.width, stride - 1, 1), offset)

    def kv_grads(self, first: int) -> tuple[Tensor, Tensor]:
        """Gradients of the key and value of the position before step `first`, both [R, D]."""
        return self.weighted(self.score_grads, self.queries, first), self.weighted(
            self.weights, self.output_grads, first
        )

    def weighted(self, weights: Tensor, x: Tensor, first: int) -> Tensor:
        """The weighted sum of x [T, L, R, D] over all attentions to the position before step `first` [R, D]."""
        steps = min(self.steps - first, self.width)
        vectors = x[first : first + steps].flatten(1, 2).transpose(0, 1)
        layers = torch.bmm(self.column(weights, first, steps).transpose(1, 2), vectors)
        return layers.squeeze(1) if self.layers == 1 else layers.view(self.layers, -1, x.size(-1)).sum(0)

    def of_past(self, weights: Tensor, x: Tensor) -> Tensor:
        """Products of weights [T, L, R, W] and vectors [T, L, R, D], summed over steps and layers -> [R, W, D]: of the
        W positions before the block."""
        layers = zip(weights.unbind(1), x.unbind(1))
        return reduce(Tensor.add_, (self.of_past_and_layer(own, vectors) for own, vectors in layers))

    def of_past_and_layer(self, weights: Tensor, x: Tensor) -> Tensor:
        """The same for one layer: weights [T, R, W], vectors [T, R, D]."""
        rows, steps = weights.size(1), min(self.steps, self.width)
        # by position: at step t the positions from t on are before the block
        shape, strides = (rows, steps, self.width), (self.width, weights.stride(0) - 1, 1)
        banded = weights.as_strided(shape, strides, weights.storage_offset()).triu()
        return torch.bmm(banded.transpose(1, 2), x[:steps].transpose(0, 1))


class SlidingSource(Source):
    """A source that holds S positions from before the block and grows by one at every step. A step sees the last S.

    There is only one query a row and step, so attention takes the time of reading keys and values. How fast they are
    read depends on their layout in the forward pass, which is that of a subclass. The backward pass sums over the other
    dimension of each, so it stores them the other way round.

    When the loop of the backward pass reaches a position, the gradient of its key is one product over all later
    attentions. The gradients of the positions from before the block are computed after the loop (see `Saved`).

    Args:
        span: S
        capacity: room for so many steps
        like: the buffers have its type and device

    Attributes:
        by_position: whether the keys, and the values, are stored position by position
        turns: whether the backward pass stores them the other way round
    """

    by_position: tuple[bool, bool]
    turns = True

    def __init__(self, batch: int, heads: int, head_dim: int, span: int, capacity: int, like: Tensor):
        super().__init__()
        self.heads, self.span, self.capacity = heads, span, capacity
        rows, places = batch * heads, span + capacity
        self.keys, self.values = (
            like.new_empty(rows, places, head_dim) if whole else like.new_empty(rows, head_dim, places).transpose(1, 2)
            for whole in self.by_position
        )
        self.steps = 0
        self.laid_out_for_backward = not self.turns
        self.saved: dict[int, Saved] = {}  # by the number of positions that a layer sees

    def fill(self, pairs: Tensor, bias: Tensor | None) -> None:
        """Write the S positions from before the block: keys and values [B * S, 2 * H * D], to which the bias is to be
        added [2 * H * D]."""
        pairs = pairs.view(-1, self.span, 2, self.heads, self.keys.size(2)).permute(2, 0, 3, 1, 4)  # [2, B, H, S, D]
        biases = (None, None) if bias is None else bias.view(2, self.heads, 1, -1).unbind()
        for buffer, x, own in zip((self.keys, self.values), pairs, biases):
            places = buffer.unflatten(0, (-1, self.heads))[:, :, : self.span]
            if own is None:
                places.copy_(x)
            else:
                torch.add(x, own, out=places)

    def refill(self, rows: Tensor, key: Tensor, value: Tensor) -> None:
        """Write the same key and value [H, D] to all positions of some rows; rows [R] is True there."""
        heads = torch.arange(len(self.keys), device=rows.device)[rows] % self.heads
        self.keys[rows] = key.unsqueeze(1)[heads]
        self.values[rows] = value.unsqueeze(1)[heads]

    @property
    def end(self):
        return self.span + self.steps

    def make_room(self) -> None:
        """Make sure that the buffers hold one more position."""
        if self.steps == self.capacity:
            self.move_window_to_front()

    def append(self, key: Tensor, value: Tensor) -> None:
        """Write one more position: key and value [B, H, D]."""
        self.make_room()
        for buffer, x in ((self.keys, key), (self.values, value)):
            buffer.unflatten(0, (-1, self.heads))[:, :, self.end] = x
        self.steps += 1

    def written(self):
        return [self.keys[:, : self.end], self.values[:, : self.end]]

    def move_window_to_front(self) -> None:
        """Move the last S positions to the front of the buffers. The others are overwritten from now on."""
        for buffer in (self.keys, self.values):
            buffer[:, : self.span] = buffer[:, self.steps : self.steps + self.span].clone()
        self.steps = 0

    def seen(self, width: int) -> slice:
        """Where in the buffers the last `width` positions lie at the present step."""
        return slice(self.end - width, self.end)

    def scores(self, query: Tensor, position: Tensor) -> Tensor:
        """query [R, 1, D] -> scores of the last W positions [R, 1, W]; position [R, W] scores their distance."""
        return self.product(query, self.keys[:, self.seen(position.size(1))].transpose(1, 2), position)

    def mix(self, weights: Tensor) -> Tensor:
        """weights [R, 1, W] -> weighted sum of the last W values [R, 1, D]"""
        return self.product(weights, self.values[:, self.seen(weights.size(2))])

    def scores_backward(self, dscores: Tensor, dposition: Tensor) -> Tensor:
        """Gradient of the scores [R, 1, W] -> gradient of the query [R, 1, D]; dposition [R, D] is the query's
        gradient through the distances."""
        return self.product(dscores, self.keys[:, self.seen(dscores.size(2))], dposition)

    def mix_backward(self, dy: Tensor, width: int) -> Tensor:
        """Gradient of the output [R, 1, D] -> gradient of the weights of the last W positions [R, 1, W]"""
        if not self.laid_out_for_backward:
            self.keys, self.values = other_layout(self.keys), other_layout(self.values)
            self.laid_out_for_backward = True
        return self.product(dy, self.values[:, self.seen(width)].transpose(1, 2))

    @staticmethod
    def product(x: Tensor, matrices: Tensor, base: Tensor | None = None) -> Tensor:
        """base [R, m] + x [R, 1, n] times matrices [R, n, m], [R, 1, m]"""
        raise NotImplementedError

    def reserve(self, width: int) -> tuple[Saved, int]:
        """Where one more layer, which sees so many positions, saves its activations, and its number there."""
        saved = self.saved.setdefault(width, Saved(width, self.capacity))
        saved.layers += 1
        return saved, saved.layers - 1

    def pop_kv_grads(self) -> tuple[Tensor, Tensor]:
        """Gradients of the last position's key and value, both [R, D], over all attentions to it. The position is then
        forgotten."""
        (key, value), *others = (saved.kv_grads(self.steps) for saved in self.saved.values())
        for more_key, more_value in others:
            key, value = key + more_key, value + more_value
        self.steps -= 1
        return key, value

    def fill_grads(self) -> tuple[Tensor, Tensor]:
        """Gradients of the keys and values that `fill` wrote, both [B * S, H * D]. To be called after the loop. It
        frees all buffers before the next source computes its gradients."""
        del self.keys, self.values
        keys = self.total(saved.of_past(saved.score_grads, saved.queries) for saved in self.saved.values())
        values = self.total(saved.of_past(saved.weights, saved.output_grads) for saved in self.saved.values())
        for saved in self.saved.values():
            saved.free()
        return keys, values

    def total(self, parts: Iterator[Tensor]) -> Tensor:
        """The sum of gradients of the last W <= S positions [R, W, D], one for each W -> [B * S, H * D]"""
        missing = ((part, self.span - part.size(1)) for part in parts)
        total = reduce(Tensor.add_, (F.pad(part, (0, 0, n, 0)) if n else part for part, n in missing))
        return total.unflatten(0, (-1, self.heads)).transpose(1, 2).reshape(-1, self.heads * total.size(2))

    def reorder(self, order: Tensor) -> None:
        self.keys, self.values = (self.reordered(x, order) for x in (self.keys, self.values))

    def reordered(self, x: Tensor, order: Tensor) -> Tensor:
        """x [R, P, D] with its rows in this order, in the layout of x."""
        if x.is_contiguous():
            return reorder_rows(x, order, self.heads)
        return reorder_rows(x.transpose(1, 2), order, self.heads).transpose(1, 2)


class AlongSums(SlidingSource):
    """Keys and values are read along the dimension that is summed over."""

    by_position = True, False

    @staticmethod
    def product(x, matrices, base=None):
        if base is None:
            return torch.bmm(matrices.transpose(1, 2), column(x)).transpose(1, 2)
        return torch.baddbmm(base.unsqueeze(2), matrices.transpose(1, 2), column(x)).transpose(1, 2)


class AcrossSums(SlidingSource):
    """Keys and values are read along the other dimension: each vector is multiplied by one number and added up."""

    by_position = False, True

    @staticmethod
    def product(x, matrices, base=None):
        return torch.bmm(x, matrices) if base is None else torch.baddbmm(base.unsqueeze(1), x, matrices)


class ByPosition(AcrossSums):
    """Keys and values lie position by position, in both passes. A window may begin anywhere: its first vector begins at
    a multiple of the width of a head, as a GPU's wide loads ask for, and a step writes whole vectors."""

    by_position = True, True
    turns = False


@cache
def fastest_layout(device: torch.device) -> type[SlidingSource]:
    """The layout that is read faster there. A CPU's products are MKL's, which on Intel's processors reads across the
    sums at more than twice the speed, and on others along them. On GPUs none has been measured."""
    if device.type != "cpu":
        return ByPosition
    return AcrossSums if "GenuineIntel" in processor() else AlongSums


def other_layout(x: Tensor) -> Tensor:
    """x [R, P, D], stored row by row or column by column, in the other of these layouts."""
    if x.is_contiguous():
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    return x.contiguous()
