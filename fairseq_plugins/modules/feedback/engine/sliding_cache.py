"""Keys and values of the last S positions of a stream, and all uses of them, whose gradients are summed.

B batch, H heads, R = B * H, D width of a head, S positions that a step sees, W <= S positions that one layer sees, T
steps of a block.
"""

import platform
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from fairseq_plugins.modules.feedback.engine.caches import Source, reorder_rows


def column(x: Tensor) -> Tensor:
    """[R, 1, n] -> [R, n, 1] with strides (n, 1, n). With strides (n, 1, 1), which mean the same, products with a batch
    of columns take five times as long on a CPU of several cores."""
    return x.reshape(len(x), -1).unsqueeze(1).transpose(1, 2)


class Uses:
    """The uses of a source: activations of the attentions to it, for the backward pass, of all steps and of all layers
    that see as many positions.

    A step writes into its own part of each buffer, so nothing is copied. The gradient of a key is a sum over all later
    uses. Rows of W weights that begin with each step's oldest position hold a position in another column at every step:
    one column to the left a step later. A view with another stride makes them one column.

    L layers that see W positions.

    Attributes:
        queries, output_grads: [T, L, R, D]
        weights: [T, L, R, W], after dropout in steps that the backward pass has reached
        score_grads: [T, L, R, W]
    """

    def __init__(self, width: int, steps: int):
        self.width, self.steps, self.layers = width, steps, 0
        self.queries: Tensor
        self.output_grads: Tensor
        self.weights: Tensor
        self.score_grads: Tensor

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

    def pull(self, first: int) -> tuple[Tensor, Tensor]:
        """Gradients of the key and value of the position before step `first`, both [R, D]."""
        key = self.pulled(self.score_grads, self.queries, first)
        return key, self.pulled(self.weights, self.output_grads, first)

    def pulled(self, weights: Tensor, x: Tensor, first: int) -> Tensor:
        """The sum of x [T, L, R, D] over all uses of the position before step `first`, weighted [R, D]."""
        steps = min(self.steps - first, self.width)
        vectors = x[first : first + steps].flatten(1, 2).transpose(0, 1)
        layers = torch.bmm(self.column(weights, first, steps).transpose(1, 2), vectors)
        return layers.squeeze(1) if self.layers == 1 else layers.view(self.layers, -1, x.size(-1)).sum(0)

    def of_past(self, weights: Tensor, x: Tensor) -> Tensor:
        """Products of weights [T, L, R, W] and vectors [T, L, R, D], summed over the uses -> [R, W, D]: of the W
        positions before the block."""
        steps, total = min(self.steps, self.width), None
        for layer in range(self.layers):
            own = weights[:, layer]
            # by position: at step t the positions from t on are before the block
            banded = own.as_strided(
                (own.size(1), steps, self.width), (self.width, own.stride(0) - 1, 1), own.storage_offset()
            ).triu()
            vectors = x[:steps, layer].transpose(0, 1)
            product = torch.bmm(banded.transpose(1, 2), vectors)
            total = product if total is None else total.add_(product)
        assert total is not None, "no layer has used the source"
        return total


class SlidingSource(Source):
    """A source that holds S positions from before the block and grows by one at every step. A step sees the last S.

    There is only one query a row and step, so attention takes the time of reading keys and values. How fast they are
    read depends on their layout, which the subclasses choose for the forward pass. The backward pass sums over the
    other dimension of each, so it stores them the other way round.

    When the loop of the backward pass reaches a position, the gradient of its key is one product over all later uses.
    The gradients of the positions from before the block are computed after the loop (see `Uses`).
    """

    def __init__(self, batch: int, heads: int, head_dim: int, span: int, capacity: int, like: Tensor):
        """
        Args:
            span: S
            capacity: room for so many steps
            like: the buffers have its type and device
        """
        super().__init__()
        self.heads, self.span, self.capacity = heads, span, capacity
        rows, places = batch * heads, span + capacity
        self.keys, self.values = self.new_buffers(like, rows, places, head_dim)
        self.steps = 0
        self.laid_out_for_backward = False
        self.uses: dict[int, Uses] = {}  # by the number of positions that a layer sees

    def new_buffers(self, like: Tensor, rows: int, places: int, head_dim: int) -> tuple[Tensor, Tensor]:
        """Empty keys and values, both [R, S + capacity, D], in the layout of the forward pass."""
        raise NotImplementedError

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

    def append(self, key: Tensor, value: Tensor) -> None:
        """Write one more position: key and value [B, H, D]."""
        if self.steps == self.capacity:
            self.move_window_to_front()
        place = self.span + self.steps
        self.keys.unflatten(0, (-1, self.heads))[:, :, place] = key
        self.values.unflatten(0, (-1, self.heads))[:, :, place] = value
        self.steps += 1

    def written(self):
        end = self.span + self.steps
        return [self.keys[:, :end], self.values[:, :end]]

    def move_window_to_front(self) -> None:
        """Move the last S positions to the front of the buffers. The others are overwritten from now on."""
        for buffer in (self.keys, self.values):
            buffer[:, : self.span] = buffer[:, self.steps : self.steps + self.span].clone()
        self.steps = 0

    def seen(self, width: int) -> slice:
        """Where in the buffers the last `width` positions lie at the present step."""
        return slice(self.steps + self.span - width, self.steps + self.span)

    def scores(self, query: Tensor, position: Tensor) -> Tensor:
        """query [R, 1, D] -> scores of the last W positions [R, 1, W]; position [R, W] scores their distance."""
        return self.product(query, self.keys[:, self.seen(position.size(1))].transpose(1, 2), position)

    def mix(self, weights: Tensor) -> Tensor:
        """weights [R, 1, W] -> weighted sum of the last W values [R, 1, D]"""
        return self.product(weights, self.values[:, self.seen(weights.size(2))])

    def lay_out_for_backward(self) -> None:
        """Store keys and values in the layout of the backward pass."""
        self.keys, self.values = other_layout(self.keys), other_layout(self.values)
        self.laid_out_for_backward = True

    def scores_backward(self, dscores: Tensor, dposition: Tensor) -> Tensor:
        """Gradient of the scores [R, 1, W] -> gradient of the query [R, 1, D]; dposition [R, D] is the query's
        gradient through the distances."""
        return self.product(dscores, self.keys[:, self.seen(dscores.size(2))], dposition)

    def mix_backward(self, dy: Tensor, width: int) -> Tensor:
        """Gradient of the output [R, 1, D] -> gradient of the weights of the last W positions [R, 1, W]"""
        if not self.laid_out_for_backward:
            self.lay_out_for_backward()
        return self.product(dy, self.values[:, self.seen(width)].transpose(1, 2))

    @staticmethod
    def product(x: Tensor, matrices: Tensor, base: Tensor | None = None) -> Tensor:
        """base [R, m] + x [R, 1, n] times matrices [R, n, m], [R, 1, m]"""
        raise NotImplementedError

    def new_use(self, width: int) -> tuple[Uses, int]:
        """Where one more layer, which sees so many positions, saves its uses, and its number there."""
        uses = self.uses.setdefault(width, Uses(width, self.capacity))
        uses.layers += 1
        return uses, uses.layers - 1

    def pop_kv_grads(self) -> tuple[Tensor, Tensor]:
        """Gradients of the last position's key and value, both [R, D], over all its uses. The position is then
        forgotten."""
        (key, value), *others = (uses.pull(self.steps) for uses in self.uses.values())
        for more_key, more_value in others:
            key, value = key + more_key, value + more_value
        self.steps -= 1
        return key, value

    def fill_grads(self) -> tuple[Tensor, Tensor]:
        """Gradients of the keys and values that `fill` wrote, both [B * S, H * D]. To be called after the loop. It
        frees all buffers before the next source computes its gradients."""
        del self.keys, self.values
        keys = self.of_past("score_grads", "queries")
        values = self.of_past("weights", "output_grads")
        for uses in self.uses.values():
            uses.free()
        return keys, values

    def of_past(self, weights: str, x: str) -> Tensor:
        """The sum of `Uses.of_past` for these buffers, over layers of all widths [B * S, H * D]."""
        total: Tensor | None = None
        for uses in self.uses.values():
            part = uses.of_past(getattr(uses, weights), getattr(uses, x))
            if uses.width < self.span:
                part = F.pad(part, (0, 0, self.span - uses.width, 0))
            total = part if total is None else total.add_(part)
        assert total is not None, "no layer reads the source"
        return total.unflatten(0, (-1, self.heads)).transpose(1, 2).reshape(-1, self.heads * total.size(2))

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] of the batch as row i."""
        self.keys, self.values = (self.reordered(x, order) for x in (self.keys, self.values))

    def reordered(self, x: Tensor, order: Tensor) -> Tensor:
        """x [R, P, D] with its rows in this order, in the layout of x."""
        if x.is_contiguous():
            return reorder_rows(x, order, self.heads)
        return reorder_rows(x.transpose(1, 2), order, self.heads).transpose(1, 2)


class AlongSums(SlidingSource):
    """Keys and values are read along the dimension that is summed over."""

    def new_buffers(self, like, rows, places, head_dim):
        return like.new_empty(rows, places, head_dim), like.new_empty(rows, head_dim, places).transpose(1, 2)

    @staticmethod
    def product(x, matrices, base=None):
        if base is None:
            return torch.bmm(matrices.transpose(1, 2), column(x)).transpose(1, 2)
        return torch.baddbmm(base.unsqueeze(2), matrices.transpose(1, 2), column(x)).transpose(1, 2)


class AcrossSums(SlidingSource):
    """Keys and values are read along the other dimension: each vector is multiplied by one number and added up."""

    def new_buffers(self, like, rows, places, head_dim):
        return like.new_empty(rows, head_dim, places).transpose(1, 2), like.new_empty(rows, places, head_dim)

    @staticmethod
    def product(x, matrices, base=None):
        return torch.bmm(x, matrices) if base is None else torch.baddbmm(base.unsqueeze(1), x, matrices)


class ByPosition(SlidingSource):
    """Keys and values lie position by position, in both passes. A window may begin anywhere: its first vector begins at
    a multiple of the width of a head, as a GPU's wide loads ask for, and a step writes whole vectors."""

    def new_buffers(self, like, rows, places, head_dim):
        return like.new_empty(rows, places, head_dim), like.new_empty(rows, places, head_dim)

    def lay_out_for_backward(self):
        pass

    product = staticmethod(AcrossSums.product)


@cache
def fastest_layout(device: torch.device) -> type[SlidingSource]:
    """The layout that is read faster there. A CPU's products are MKL's, which on Intel's processors reads across the
    sums at more than twice the speed, and on others along them. On GPUs none has been measured."""
    if device.type != "cpu":
        return ByPosition
    return AcrossSums if "GenuineIntel" in processor() else AlongSums


def processor() -> str:
    """The description of the processor by the system."""
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:  # this is no Linux
        return platform.processor()


def other_layout(x: Tensor) -> Tensor:
    """x [R, P, D], stored row by row or column by column, in the other of these layouts."""
    if x.is_contiguous():
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    return x.contiguous()
