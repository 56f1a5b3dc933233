"""Parts of a recurrence whose backward pass is written by hand.

Autograd through a loop over time would compute the gradient of every weight at every step: T small products, added up.
The parts here compute only the gradients of activations in the loop, which the step before needs. They compute every
weight's gradient once, after the loop, as one large product.

A part works on one time step at a time:

    forward(x)   is called for t = 0..T-1. It saves what the backward pass needs, if `record` is set.
    backward(dy) is called for t = T-1..0. It takes the gradient of the step's output and returns that of its input.
    gradients()  is called once, after the loop. It yields pairs (tensor, gradient of this tensor).

On a GPU a step costs as much time as it has operations, so they are few: `forward_onto` and `backward_onto` add a
residual within the operation that makes the other summand, and the scale of dropout is left to the next matrix.

T steps, B batch, H heads, R = B * H, D width of a head, C = H * D, S positions attended to.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.activations import Activation
from fairseq_plugins.modules.common.dropout import StepDropout, kept_scale

aten = torch.ops.aten
Gradients = Iterator[tuple[Tensor, Tensor]]


class Part:
    """The part that changes nothing, and the base of all others."""

    def forward(self, x: Tensor) -> Tensor:
        return x

    def forward_into(self, x: Tensor, out: Tensor) -> Tensor:
        """As `forward`. The result may be written to `out`."""
        return self.forward(x)

    def recompute(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """What `forward` returned for x at this step, written to `out` if given. To be called in the backward pass,
        after `backward`. It costs less than saving the result."""
        return x if out is None or out is x else out.copy_(x)

    def backward(self, dy: Tensor) -> Tensor:
        return dy

    def forward_onto(self, x: Tensor, base: Tensor) -> Tensor:
        """base + forward(x)"""
        return base + self.forward(x)

    def backward_onto(self, dy: Tensor, base: Tensor) -> Tensor:
        """base + backward(dy)"""
        return base + self.backward(dy)

    def record_grad(self, dy: Tensor) -> None:
        """Take the gradient of the output without computing that of the input. To be called instead of `backward` where
        the input was a constant."""

    def gradients(self) -> Gradients:
        return iter(())


class Projection(NamedTuple):
    """The weight and bias of a linear layer, for those that are not parameters."""

    weight: Tensor
    bias: Tensor | None


def product(a: Tensor, b: Tensor, scale: float, out: Tensor | None = None) -> Tensor:
    """scale a b, for matrices, written to `out` if given"""
    if scale == 1:
        return torch.mm(a, b, out=out)
    return torch.addmm(
        a.new_empty(()), a, b, beta=0, alpha=scale, out=out
    )  # with beta 0 the first argument is not read


class Slots:
    """Room for what the steps make, side by side, so that `joined` need not copy it.

    Args:
        steps: how many
    """

    def __init__(self, steps: int):
        self.steps = steps
        self.buffer: Tensor | None = None

    def slot(self, step: int, like: Tensor, width: int) -> Tensor:
        """Where what this step makes is to be written [B, width]; like [B, ...] has its type and device."""
        if self.buffer is None:
            self.buffer = like.new_empty(self.steps, len(like), width)
        return self.buffer[step]


def joined(steps: list[Tensor]) -> Tensor:
    """Tensors [B, n] of T steps as one [T * B, n]. Where they lie side by side, as those of `Slots`, it is a view."""
    first = steps[0]
    memory, offset, size = first.untyped_storage().data_ptr(), first.storage_offset(), first.numel()
    side_by_side = all(
        x.is_contiguous() and x.untyped_storage().data_ptr() == memory and x.storage_offset() == offset + step * size
        for step, x in enumerate(steps)
    )
    if not side_by_side:
        return torch.cat(steps)
    width = first.size(1)
    return first.as_strided((len(steps) * len(first), width), (width, 1))  # a single row may have any stride


class Linear(Part):
    """y = scale x W^T + b for x [B, in]. The layer may have no b.

    Attributes:
        grad_slot: returns where the gradient of the present step's input is to be written; None: to a new tensor
    """

    grad_slot: Callable[[], Tensor] | None = None

    def __init__(self, linear: nn.Linear | Projection, record: bool, scale: float = 1.0):
        self.weight, self.bias, self.record, self.scale = linear.weight, linear.bias, record, scale
        self.transposed = self.weight.t()
        self.inputs: list[Tensor] = []
        self.output_grads: list[Tensor] = []

    def transpose_weight(self) -> None:
        """Store the weight transposed. Where `out` is larger than `in`, a CPU then multiplies one or two rows by it up
        to three times as fast. The copy pays off after about twenty steps."""
        self.transposed = self.transposed.contiguous()

    def forward(self, x):
        return self.forward_into(x, None)

    def forward_into(self, x: Tensor, out: Tensor | None) -> Tensor:
        """As `forward`. The result is written to `out`, if given."""
        if self.bias is None:
            self.save(x)
            return product(x, self.transposed, self.scale, out)
        return self.product_onto(x, self.bias, out)

    def forward_onto(self, x, base):
        if self.bias is not None or base.dtype is not x.dtype:
            return base + self.forward(x)
        return self.product_onto(x, base)

    def product_onto(self, x: Tensor, base: Tensor, out: Tensor | None = None) -> Tensor:
        """base + scale x W^T"""
        self.save(x)
        return torch.addmm(base, x, self.transposed, alpha=self.scale, out=out)

    def save(self, x: Tensor) -> None:
        if self.record:
            self.inputs.append(x)

    def backward(self, dy):
        self.record_grad(dy)
        return product(dy, self.weight, self.scale, self.grad_slot and self.grad_slot())

    def backward_onto(self, dy, base):
        self.record_grad(dy)
        if base.dtype is not dy.dtype:
            return base + product(dy, self.weight, self.scale)
        return torch.addmm(base, dy, self.weight, alpha=self.scale)

    def record_grad(self, dy):
        self.output_grads.append(dy)

    def gradients(self):
        if not self.output_grads:  # a block of one step writes no memory
            return
        dy = joined(self.output_grads[::-1])
        if self.weight.requires_grad:
            yield self.weight, product(dy.t(), joined(self.inputs), self.scale)
        if self.bias is not None and self.bias.requires_grad:
            yield self.bias, dy.sum(0)


class ReluLinear(Linear):
    """ReLU(x W^T + b) with dropout. The backward pass reads off the output both what the ReLU and what the dropout let
    through, so nothing else is saved. The dropout must have no scale of its own.

    Args:
        steps: of how many steps outputs and gradients have room side by side
    """

    def __init__(self, linear: nn.Linear, dropout: Part, record: bool, steps: int):
        super().__init__(linear, record)
        self.dropout = dropout
        self.outputs: list[Tensor] = []
        self.output_slots, self.grad_slots = Slots(steps), Slots(steps)

    def forward(self, x):
        self.save(x)
        y = aten._addmm_activation(self.bias, x, self.transposed)
        if not self.record:
            return self.dropout.forward(y)
        y = self.dropout.forward_into(y, self.output_slots.slot(len(self.outputs), y, y.size(1)))
        self.outputs.append(y)
        return y

    forward_onto = Part.forward_onto

    def backward(self, dy):
        return super().backward(self.relu_backward(dy))

    def backward_onto(self, dy, base):
        return super().backward_onto(self.relu_backward(dy), base)

    def relu_backward(self, dy: Tensor) -> Tensor:
        y = self.outputs.pop()
        slot = self.grad_slots.slot(len(self.outputs), y, y.size(1))
        return aten.threshold_backward.grad_input(dy, y, 0, grad_input=slot)


class LayerNorm(Part):
    """Layer normalisation of x [B, C]. It may have no parameters."""

    def __init__(self, norm: nn.LayerNorm, record: bool):
        self.shape, self.eps, self.record = norm.normalized_shape, norm.eps, record
        self.weight, self.bias = norm.weight, norm.bias
        self.saved: list[tuple[Tensor, Tensor, Tensor]] = []  # input, mean, 1 / standard deviation
        self.output_grads: list[Tensor] = []

    def forward(self, x):
        y, mean, rstd = torch.native_layer_norm(x, self.shape, self.weight, self.bias, self.eps)
        if self.record:
            self.saved.append((x, mean, rstd))
        return y

    def _backward(self, dy, x, mean, rstd, which):
        return aten.native_layer_norm_backward(dy, x, self.shape, mean, rstd, self.weight, self.bias, which)

    def backward(self, dy):
        # the saved tensors are needed again for the parameters: index from the end, do not pop
        saved = self.saved[-1 - len(self.output_grads)]
        self.record_grad(dy)
        return self._backward(dy, *saved, (True, False, False))[0]

    def record_grad(self, dy):
        self.output_grads.append(dy)

    def gradients(self):
        if not self.output_grads or self.weight is None:
            return
        x, mean, rstd = (torch.cat(steps) for steps in zip(*self.saved))
        dy = torch.cat(self.output_grads[::-1])
        _, weight, bias = self._backward(dy, x, mean, rstd, (False, True, True))
        yield self.weight, weight
        yield self.bias, bias


class Dropout(Part):
    """Dropout of a tensor of any shape.

    Args:
        masks: the masks of all steps
        scale: by what elements that are kept are multiplied; 1: the matrix after this part does it
        record: save the masks
    """

    def __init__(self, masks: StepDropout, scale: float, record: bool):
        self.draws, self.scale, self.record = masks, scale, record
        self.masks: list[Tensor] = []
        self.present: Tensor  # the mask of the step that the backward pass is at

    def apply(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * mask if self.scale == 1 else aten.native_dropout_backward(x, mask, self.scale)

    def next_mask(self, like: Tensor) -> Tensor:
        mask = self.draws.mask(like)
        if self.record:
            self.masks.append(mask)
        return mask

    def forward(self, x):
        return self.apply(x, self.next_mask(x))

    def forward_into(self, x, out):
        return torch.mul(x, self.next_mask(x), out=out) if self.scale == 1 else self.forward(x)

    def forward_onto(self, x, base):
        return torch.addcmul(base, x, self.next_mask(x), value=self.scale)

    def recompute(self, x, out=None):
        assert self.scale == 1, "the scale is left to the matrix after this part"
        return torch.mul(x, self.present, out=out)

    def backward(self, dy):
        self.present = self.masks.pop()
        return self.apply(dy, self.present)


class Dropouts:
    """Makes the parts that drop something, for loops over so many steps.

    Args:
        steps: how many
        training: otherwise nothing is dropped
        record: save the masks
        device: the device of the tensors
    """

    def __init__(self, steps: int, training: bool, record: bool, device: torch.device):
        self.steps, self.training, self.record, self.device = steps, training, record, device

    def scale(self, rate: float) -> float:
        """By what elements that are kept are multiplied."""
        return kept_scale(rate, self.device) if self.training else 1.0

    def part(self, rate: float) -> Part:
        """Dropout with its scale."""
        return self.make(rate, self.scale(rate), self.record)

    def unscaled(self, rate: float, record: bool | None = None, grows: bool = False) -> Part:
        """Dropout whose scale is left to the matrix after it. `grows` is as of StepDropout."""
        return self.make(rate, 1.0, self.record if record is None else record, grows)

    def make(self, rate: float, scale: float, record: bool, grows: bool = False) -> Part:
        if not self.training or not rate:
            return Part()
        return Dropout(StepDropout(rate, self.steps, grows), scale, record)


class Pointwise(Part):
    """An activation function."""

    def __init__(self, activation: Activation, record: bool):
        self.activation, self.record = activation, record
        self.saved: list[tuple[Tensor, Tensor]] = []  # input, output

    def forward(self, x):
        y = self.activation.forward(x)
        if self.record:
            self.saved.append((x, y))
        return y

    def backward(self, dy):
        return self.activation.backward(dy, *self.saved.pop())


class Chain(Part):
    """Several parts, one after the other."""

    def __init__(self, *parts: Part):
        self.parts = [part for part in parts if type(part) is not Part]

    def forward(self, x):
        for part in self.parts:
            x = part.forward(x)
        return x

    def forward_onto(self, x, base):
        *others, last = self.parts
        for part in others:
            x = part.forward(x)
        return last.forward_onto(x, base)

    def backward(self, dy):
        for part in reversed(self.parts):
            dy = part.backward(dy)
        return dy

    def backward_onto(self, dy, base):
        first, *others = self.parts
        for part in reversed(others):
            dy = part.backward(dy)
        return first.backward_onto(dy, base)

    def gradients(self):
        for part in self.parts:
            yield from part.gradients()


class Cast(Part):
    """Another part that computes in a type of its own. Its input, and the gradient that it returns, are in another."""

    def __init__(self, body: Part, dtype: torch.dtype, outer: torch.dtype):
        self.body, self.dtype, self.outer = body, dtype, outer

    def forward(self, x):
        return self.body.forward(x.to(self.dtype))

    def forward_onto(self, x, base):
        return self.body.forward_onto(x.to(self.dtype), base)

    def backward(self, dy):
        return self.body.backward(dy.to(self.dtype)).to(self.outer)

    def backward_onto(self, dy, base):
        return self.body.backward_onto(dy.to(self.dtype), base)

    def gradients(self):
        return self.body.gradients()


def in_type(part: Part, dtype: torch.dtype, outer: torch.dtype) -> Part:
    """The part, computing in this type; what is around it is of the outer one."""
    return part if dtype is outer else Cast(part, dtype, outer)


class Residual(Part):
    """x + body(norm(x)) with pre-norm, norm(x + body(x)) with post-norm."""

    def __init__(self, norm: LayerNorm, body: Part, pre_norm: bool):
        self.norm, self.body, self.pre_norm = norm, body, pre_norm

    def forward(self, x):
        if self.pre_norm:
            return self.body.forward_onto(self.norm.forward(x), x)
        return self.norm.forward(self.body.forward_onto(x, x))

    def backward(self, dy):
        if self.pre_norm:
            return self.norm.backward_onto(self.body.backward(dy), dy)
        dy = self.norm.backward(dy)
        return self.body.backward_onto(dy, dy)

    def gradients(self):
        yield from self.norm.gradients()
        yield from self.body.gradients()


class Source:
    """Keys and values [R, S, D] that queries attend to: in decoding, the KV cache. The keys are scaled by D^-1/2
    already, so the scores need no scaling.

    A use of a source is one attention to it, of one layer at one step.
    """

    def __init__(self) -> None:
        self.taken: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []  # by `add_use`

    def window(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """What the present step attends to: keys and values [R, S, D], and the mask [R, 1, S] that is added to the
        scores, or None."""
        raise NotImplementedError

    def written(self) -> list[Tensor]:
        """Views of all that has been written; their rows are R."""
        return [x for x in self.window() if x is not None]

    def add_use(self, query: Tensor, dscores: Tensor, weights: Tensor, dy: Tensor) -> None:
        """Take the four tensors of one use, in the backward pass: query, gradient of the scores, weights after dropout,
        and gradient of the output, each [R, 1, ...]."""
        self.taken.append((query, dscores, weights, dy))

    def gradients(self) -> Gradients:
        return iter(())

    def products(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The factors of the gradients of all uses so far, which are then forgotten. The gradient of the keys is the
        product of the first two, the gradient of the values is the product of the last two."""
        query, dscores, weights, dy = (torch.cat(column, dim=1) for column in zip(*self.taken))
        self.taken.clear()
        return dscores.transpose(1, 2), query, weights.transpose(1, 2), dy


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
        dscores, query, weights, dy = self.products()
        yield self.keys, torch.bmm(dscores, query)
        yield self.values, torch.bmm(weights, dy)

    def reorder(self, order: Tensor, heads: int) -> None:
        self.keys, self.values = (reorder_rows(x, order, heads) for x in (self.keys, self.values))
        if self.mask is not None:
            self.mask = reorder_rows(self.mask, order, heads)


class GrowingSource(Source):
    """A source that grows by one position at every step. Keys and values are written in place.

    In the backward pass `pop_kv_grads` returns the gradients of the last position and forgets the position: by then the
    loop has passed all uses of it. All layers of a step add to the gradients by one product.
    """

    def __init__(self, batch: int, heads: int, head_dim: int, capacity: int, like: Tensor, mask: Tensor | None = None):
        super().__init__()
        self.batch, self.heads, self.mask = batch, heads, mask
        self.steps = 0
        self.keys = like.new_empty(batch * heads, capacity, head_dim)
        self.values = torch.empty_like(self.keys)
        self.kv_grads: tuple[Tensor, Tensor] | None = None  # made by the first `pop_kv_grads`
        self.spare: tuple[Tensor, Tensor] | None = None  # buffers, made by the first `reorder`

    def append(self, key: Tensor, value: Tensor) -> None:
        """key and value [B, H, D]"""
        if self.steps == self.keys.size(1):
            self.keys, self.values = (torch.cat([x, torch.empty_like(x)], dim=1) for x in (self.keys, self.values))
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
        key_grads, value_grads = self.kv_grads
        dscores, query, weights, dy = self.products()
        # not baddbmm_: on a part of the buffer it is ten times slower
        key_grads[:, :n] += torch.bmm(dscores, query)
        value_grads[:, :n] += torch.bmm(weights, dy)
        self.steps -= 1
        return key_grads[:, n - 1], value_grads[:, n - 1]

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] of the batch as row i."""
        if self.spare is None or self.spare[0].shape[1:] != self.keys.shape[1:] or len(order) > self.batch:
            shape = (len(order) * self.heads, *self.keys.shape[1:])
            self.spare = self.keys.new_empty(shape), self.values.new_empty(shape)
        keys, values = self.spare
        self.spare = self.keys, self.values
        self.keys = reorder_rows(self.keys, order, self.heads, keys)
        self.values = reorder_rows(self.values, order, self.heads, values)
        self.batch = len(order)


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
        self.saved: list = []  # what the backward pass needs of each step

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
        self.source.add_use(query, dscores, self.weight_dropout.recompute(weights), dy)
        return self.merge_heads(torch.bmm(dscores, keys)).flatten(1)

    def gradients(self):
        return self.query.gradients()
