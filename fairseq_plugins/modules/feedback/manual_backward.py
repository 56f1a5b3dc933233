"""Parts of a recurrence whose backward pass is written by hand.

Autograd through a loop over time computes the gradient of every weight once a step: T small products that are added up.
The parts here compute in the loop only what the step before needs, the gradients of activations, and every weight's
gradient once after the loop, as one large product.

Each part works on one time step. `forward` is called for t = 0..T-1 and keeps what the backward pass needs (nothing if
`record` is off); `backward` is called for t = T-1..0, takes the gradient of that step's output and returns that of its
input; `gradients` is called at the end and yields pairs (tensor, its gradient).

B batch, C width, R = B * heads, D = C / heads, S positions attended to.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.activations import Activation

aten = torch.ops.aten
Gradients = Iterator[tuple[Tensor, Tensor]]


class Part:
    """A part without parameters that changes nothing."""

    def forward(self, x: Tensor) -> Tensor:
        return x

    def again(self, x: Tensor) -> Tensor:
        """In the backward pass, before `backward`: what `forward` made of x. Cheaper than keeping it."""
        return x

    def backward(self, dy: Tensor) -> Tensor:
        return dy

    def keep(self, dy: Tensor) -> None:
        """Instead of `backward`, where the input was a constant."""

    def gradients(self) -> Gradients:
        return iter(())


class Linear(Part):
    """y = x W^T + b for x [B, in]; b may be missing."""

    def __init__(self, linear: nn.Linear, record: bool):
        self.weight, self.bias, self.record = linear.weight, linear.bias, record
        self.transposed = self.weight.t()
        self.inputs, self.output_grads = [], []

    def turn(self) -> None:
        """Copy the weight the other way round: where `out` is the larger, a CPU multiplies one or two rows by it up to
        three times as fast. The copy pays after some twenty steps."""
        self.transposed = self.transposed.contiguous()

    def forward(self, x):
        if self.record:
            self.inputs.append(x)
        return torch.mm(x, self.transposed) if self.bias is None else torch.addmm(self.bias, x, self.transposed)

    def backward(self, dy):
        self.keep(dy)
        return torch.mm(dy, self.weight)

    def keep(self, dy):
        self.output_grads.append(dy)

    def gradients(self):
        if not self.output_grads:  # a block of one step writes no memory
            return
        dy = torch.cat(self.output_grads[::-1])
        if self.weight.requires_grad:
            yield self.weight, torch.mm(dy.t(), torch.cat(self.inputs))
        if self.bias is not None and self.bias.requires_grad:
            yield self.bias, dy.sum(0)


class LayerNorm(Part):
    """Layer normalisation of x [B, C]."""

    def __init__(self, norm: nn.LayerNorm, record: bool):
        self.norm, self.record = norm, record
        self.kept, self.output_grads = [], []

    def forward(self, x):
        norm = self.norm
        y, mean, rstd = torch.native_layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        if self.record:
            self.kept.append((x, mean, rstd))
        return y

    def _backward(self, dy, x, mean, rstd, which):
        norm = self.norm
        return aten.native_layer_norm_backward(dy, x, norm.normalized_shape, mean, rstd, norm.weight, norm.bias, which)

    def backward(self, dy):
        # kept tensors are wanted again for the parameters: index from the end, do not pop
        kept = self.kept[-1 - len(self.output_grads)]
        self.keep(dy)
        return self._backward(dy, *kept, (True, False, False))[0]

    def keep(self, dy):
        self.output_grads.append(dy)

    def gradients(self):
        if not self.output_grads:
            return
        x, mean, rstd = (torch.cat(kept) for kept in zip(*self.kept))
        dy = torch.cat(self.output_grads[::-1])
        _, weight, bias = self._backward(dy, x, mean, rstd, (False, True, True))
        yield self.norm.weight, weight
        yield self.norm.bias, bias


class Dropout(Part):
    """Dropout with rate p of a tensor of any shape."""

    def __init__(self, p: float, record: bool):
        self.p, self.record = p, record
        self.scale = 1 / (1 - p) if p < 1 else 0.0
        self.masks = []

    def forward(self, x):
        y, mask = torch.native_dropout(x, self.p, True)
        if self.record:
            self.masks.append(mask)
        return y

    def again(self, x):
        return aten.native_dropout_backward(x, self.masks[-1], self.scale)

    def backward(self, dy):
        return aten.native_dropout_backward(dy, self.masks.pop(), self.scale)


def dropout(p: float, training: bool, record: bool) -> Part:
    return Dropout(p, record) if training and p > 0 else Part()


class Pointwise(Part):
    """An activation function."""

    def __init__(self, activation: Activation, record: bool):
        self.activation, self.record = activation, record
        self.kept = []

    def forward(self, x):
        y = self.activation.forward(x)
        if self.record:
            self.kept.append((x, y))
        return y

    def backward(self, dy):
        return self.activation.backward(dy, *self.kept.pop())


class Chain(Part):
    """Parts one after the other."""

    def __init__(self, *parts: Part):
        self.parts = [part for part in parts if type(part) is not Part]

    def forward(self, x):
        for part in self.parts:
            x = part.forward(x)
        return x

    def backward(self, dy):
        for part in reversed(self.parts):
            dy = part.backward(dy)
        return dy

    def gradients(self):
        for part in self.parts:
            yield from part.gradients()


class Residual(Part):
    """x + body(norm(x)), or post-norm norm(x + body(x))."""

    def __init__(self, norm: LayerNorm, body: Part, pre_norm: bool):
        self.norm, self.body, self.pre_norm = norm, body, pre_norm

    def forward(self, x):
        if self.pre_norm:
            return x + self.body.forward(self.norm.forward(x))
        return self.norm.forward(x + self.body.forward(x))

    def backward(self, dy):
        if self.pre_norm:
            return dy + self.norm.backward(self.body.backward(dy))
        dy = self.norm.backward(dy)
        return dy + self.body.backward(dy)

    def gradients(self):
        yield from self.norm.gradients()
        yield from self.body.gradients()


class Source:
    """Keys and values [R, S, D] that queries attend to. Keys come scaled by D^-1/2, so scores need no scaling."""

    def __init__(self):
        self.uses = []  # (queries, gradient of scores, dropped weights, gradient of outputs), each [R, 1, ...]

    def window(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values [R, S, D] and what is added to the scores [R, 1, S], or None, at the present step."""
        raise NotImplementedError

    def add_use(self, *use: Tensor) -> None:
        self.uses.append(use)

    def gradients(self) -> Gradients:
        return iter(())

    def products(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All uses so far, one after the other along dimension 1: the gradient of the keys is the product of the first
        two, that of the values of the last two."""
        query, dscores, weights, dy = (torch.cat(column, dim=1) for column in zip(*self.uses))
        self.uses.clear()
        return dscores.transpose(1, 2), query, weights.transpose(1, 2), dy


def reorder_rows(x: Tensor, order: Tensor, heads: int, out: Tensor | None = None) -> Tensor:
    """[B * heads, ...] with the batch in a new order, written to the first rows of `out` where that is given."""
    if out is not None:
        out = out[: len(order) * heads].unflatten(0, (-1, heads))
    return torch.index_select(x.unflatten(0, (-1, heads)), 0, order, out=out).flatten(0, 1)


class FixedSource(Source):
    """A source that is the same for all steps: the encoder's output. mask [R, 1, S] is added to the scores, or None."""

    def __init__(self, keys: Tensor, values: Tensor, mask: Tensor | None):
        super().__init__()
        self.keys, self.values, self.mask = keys, values, mask

    def window(self):
        return self.keys, self.values, self.mask

    def gradients(self) -> Gradients:
        dscores, query, weights, dy = self.products()
        yield self.keys, torch.bmm(dscores, query)
        yield self.values, torch.bmm(weights, dy)

    def reorder(self, order: Tensor, heads: int) -> None:
        self.keys, self.values = (reorder_rows(x, order, heads) for x in (self.keys, self.values))
        if self.mask is not None:
            self.mask = reorder_rows(self.mask, order, heads)


class GrowingSource(Source):
    """A source that gets one more position each step, written in place.

    In the backward pass `pop` returns the gradient of the last position's key and value and forgets the position: all
    its uses have been seen by then. What the layers of one step add to the gradients is added as one product.
    """

    def __init__(self, batch: int, heads: int, head_dim: int, capacity: int, like: Tensor, mask: Tensor | None = None):
        super().__init__()
        self.batch, self.heads, self.mask = batch, heads, mask
        self.length = 0
        self.keys = like.new_empty(batch * heads, capacity, head_dim)
        self.values = torch.empty_like(self.keys)
        self.key_grads = self.value_grads = None  # made by the first `pop`
        self.spare_keys = self.spare_values = None  # made by the first `reorder`

    def append(self, key: Tensor, value: Tensor) -> None:
        """key and value [B, C]"""
        if self.length == self.keys.size(1):
            self.keys, self.values = (torch.cat([x, torch.empty_like(x)], dim=1) for x in (self.keys, self.values))
        self.keys[:, self.length] = key.view(self.keys.size(0), -1)
        self.values[:, self.length] = value.view(self.keys.size(0), -1)
        self.length += 1

    def window(self):
        n = self.length
        return self.keys[:, :n], self.values[:, :n], None if self.mask is None else self.mask[..., :n]

    def pop(self) -> tuple[Tensor, Tensor]:
        """Gradients of the last position's key and value, both [B, C]."""
        n = self.length
        if self.key_grads is None:
            self.key_grads, self.value_grads = torch.zeros_like(self.keys), torch.zeros_like(self.values)
        dscores, query, weights, dy = self.products()
        # not baddbmm_: on a part of the buffer it is ten times slower
        self.key_grads[:, :n] += torch.bmm(dscores, query)
        self.value_grads[:, :n] += torch.bmm(weights, dy)
        self.length -= 1
        return tuple(grads[:, n - 1].reshape(self.batch, -1) for grads in (self.key_grads, self.value_grads))

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] of the batch as row i."""
        if self.spare_keys is None or self.spare_keys.shape[1:] != self.keys.shape[1:] or len(order) > self.batch:
            shape = (len(order) * self.heads, *self.keys.shape[1:])
            self.spare_keys, self.spare_values = self.keys.new_empty(shape), self.values.new_empty(shape)
        self.keys, self.spare_keys = reorder_rows(self.keys, order, self.heads, self.spare_keys), self.keys
        self.values, self.spare_values = reorder_rows(self.values, order, self.heads, self.spare_values), self.values
        self.batch = len(order)


class Attention(Part):
    """Attention of one query a row [B, C] to a source, the heads side by side in C.

    With beam > 1 the source has one row for every `beam` rows of queries, which then attend to it together.
    """

    def __init__(self, query: Linear, source: Source, weight_dropout: Part, heads: int, record: bool, beam: int = 1):
        self.query, self.source, self.weight_dropout, self.record = query, source, weight_dropout, record
        self.heads, self.beam = heads, beam
        self.weights: Tensor | None = None  # [R, beam, S] of the latest step
        self.kept = []

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
            self.kept.append((query, self.weights))
        return self.merge_heads(torch.bmm(dropped, values)).flatten(1)

    def backward(self, dy):
        query, weights = self.kept.pop()
        dropped = self.weight_dropout.again(weights)
        keys, values, _ = self.source.window()
        dy = self.split_heads(dy)
        dweights = self.weight_dropout.backward(torch.bmm(dy, values.transpose(1, 2)))
        dscores = aten._softmax_backward_data(dweights, weights, -1, weights.dtype)
        self.source.add_use(query, dscores, dropped, dy)
        return self.query.backward(self.merge_heads(torch.bmm(dscores, keys)).flatten(1))

    def gradients(self):
        return self.query.gradients()
