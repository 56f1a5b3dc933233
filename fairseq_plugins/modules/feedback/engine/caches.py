"""Keys and values that attention reads: those of an encoder, which remain, and those of memories, which grow by a step.

B batch, H heads, R = B * H, D width of a head, S positions attended to.
"""

import torch
from torch import Tensor

from fairseq_plugins.modules.feedback.engine.backward import Gradients


class Source:
    """Keys and values [R, S, D] that queries attend to: in decoding, the KV cache. The keys are scaled by D^-1/2
    already, so the scores need no scaling.
    """

    keys: Tensor
    values: Tensor

    @property
    def end(self) -> int:
        """How many places are written."""
        return self.keys.size(1)

    def __init__(self) -> None:
        self.factors: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []  # by `add_grads`

    def window(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The positions that the present step attends to: keys and values [R, S, D], and the mask [R, 1, S] that is
        added to the scores, or None."""
        raise NotImplementedError

    def written(self) -> list[Tensor]:
        """Views of all tensors that have been written; their rows are R."""
        return [x for x in self.window() if x is not None]

    def add_grads(self, query: Tensor, dscores: Tensor, weights: Tensor, dy: Tensor) -> None:
        """Take the factors of one attention's gradients, in the backward pass: query, gradient of the scores, weights
        after dropout, and gradient of the output, each [R, 1, ...]."""
        self.factors.append((query, dscores, weights, dy))

    def gradients(self) -> Gradients:
        return iter(())

    def kv_products(self) -> tuple[Tensor, Tensor]:
        """The gradients of keys and values, both [R, S, D], by all attentions so far, which are then forgotten."""
        query, dscores, weights, dy = (torch.cat(column, dim=1) for column in zip(*self.factors))
        self.factors.clear()
        return torch.bmm(dscores.transpose(1, 2), query), torch.bmm(weights.transpose(1, 2), dy)


def reorder_rows(x: Tensor, order: Tensor, heads: int, out: Tensor | None = None) -> Tensor:
    """Rows [B * heads, ...] with the batch in a new order [B']. They are written to the first rows of `out`, if
    given."""
    if out is not None:
        out = out[: len(order) * heads].unflatten(0, (-1, heads))
    return torch.index_select(x.unflatten(0, (-1, heads)), 0, order, out=out).flatten(0, 1)


class FixedSource(Source):
    """A source that is the same at all steps: the encoder's output. mask [R, 1, S] is added to the scores, or None."""

    def __init__(self, keys: Tensor, values: Tensor, mask: Tensor | None):
        super().__init__()
        self.keys, self.values, self.mask = keys, values, mask

    def window(self):
        return self.keys, self.values, self.mask

    def gradients(self) -> Gradients:
        yield from zip((self.keys, self.values), self.kv_products())

    def reorder(self, order: Tensor, heads: int) -> None:
        self.keys, self.values = (reorder_rows(x, order, heads) for x in (self.keys, self.values))
        if self.mask is not None:
            self.mask = reorder_rows(self.mask, order, heads)


class GrowingSource(Source):
    """A source that grows by one position at every step. Keys and values are written in place.

    In the backward pass `pop_kv_grads` returns the gradients of the last position and forgets the position: by then the
    loop has passed all attentions to it. All layers of a step add to the gradients by one product.
    """

    def __init__(self, batch: int, heads: int, head_dim: int, capacity: int, like: Tensor, mask: Tensor | None = None):
        super().__init__()
        self.batch, self.heads, self.mask = batch, heads, mask
        self.steps = 0
        self.keys = like.new_empty(batch * heads, capacity, head_dim)
        self.values = torch.empty_like(self.keys)
        self.kv_grads: tuple[Tensor, Tensor] | None = None  # made by the first `pop_kv_grads`
        self.spare: tuple[Tensor, Tensor] | None = None  # buffers, made by the first `reorder`

    @property
    def end(self):
        return self.steps

    def make_room(self) -> None:
        """Make sure that the buffers hold one more position."""
        if self.steps == self.keys.size(1):
            self.keys, self.values = (torch.cat([x, torch.empty_like(x)], dim=1) for x in (self.keys, self.values))

    def append(self, key: Tensor, value: Tensor) -> None:
        """key and value [B, H, D]"""
        self.make_room()
        for buffer, x in ((self.keys, key), (self.values, value)):
            buffer.unflatten(0, (-1, self.heads))[:, :, self.steps] = x
        self.steps += 1

    def window(self):
        n = self.steps
        return self.keys[:, :n], self.values[:, :n], None if self.mask is None else self.mask[..., :n]

    def pop_kv_grads(self) -> tuple[Tensor, Tensor]:
        """Gradients of the last position's key and value, both [R, D]."""
        n = self.steps
        if self.kv_grads is None:
            self.kv_grads = torch.zeros_like(self.keys), torch.zeros_like(self.values)
        for total, grads in zip(self.kv_grads, self.kv_products()):
            total[:, :n] += grads  # not baddbmm_: on a part of the buffer it is ten times slower
        self.steps -= 1
        keys, values = self.kv_grads
        return keys[:, n - 1], values[:, n - 1]

    def reorder(self, order: Tensor) -> None:
        if (
            self.spare is None
            or self.spare[0].shape[1:] != self.keys.shape[1:]
            or len(order) * self.heads > len(self.spare[0])
        ):
            shape = (len(order) * self.heads, *self.keys.shape[1:])
            self.spare = self.keys.new_empty(shape), self.values.new_empty(shape)
        keys, values = self.spare
        self.spare = self.keys, self.values
        self.keys = reorder_rows(self.keys, order, self.heads, keys)
        self.values = reorder_rows(self.values, order, self.heads, values)
        self.batch = len(order)
