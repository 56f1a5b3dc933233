"""Parts of a recurrence whose backward pass is written by hand.

Autograd through a loop over time would compute the gradient of every weight at every step: T small products, added up.
The parts here compute only the gradients of activations in the loop, which the step before needs. They compute every
weight's gradient once, after the loop, as one large product.

A part works on one time step at a time:

    forward(x)   is called for t = 0..T-1. It saves activations for the backward pass, if `record` is set.
    backward(dy) is called for t = T-1..0. It takes the gradient of the step's output and returns that of its input.
    gradients()  is called once, after the loop. It yields pairs (tensor, gradient of this tensor).

On a GPU a step costs as much time as it has operations, so they are few: `forward_onto` and `backward_onto` add a
residual within the operation that makes the other summand, and the scale of dropout is left to the next matrix.

T steps, B batch, C width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

    def forward_into(self, x: Tensor, out: Tensor | None) -> Tensor:
        """As `forward`. The result may be written to `out`."""
        return self.forward(x)

    def recompute(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """The result of `forward` for x at this step, written to `out` if given. To be called in the backward pass,
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
    unread = a.new_empty(())  # beta is 0
    return torch.addmm(unread, a, b, beta=0, alpha=scale, out=out)


def cast(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    """x in this type; None: in its own. Without a change this costs less than `x.to`."""
    return x if dtype is None or x.dtype is dtype else x.to(dtype)


class Slots:
    """Buffers for the results of some steps, side by side, so that `joined` need not copy them."""

    def __init__(self, steps: int):
        self.steps = steps
        self.buffer: Tensor | None = None

    def slot(self, step: int, like: Tensor, width: int) -> Tensor:
        """The buffer for the result of this step [B, width]; like [B, ...] has its type and device."""
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

    def forward(self, x):
        return self.forward_into(x, None)

    def forward_into(self, x, out):
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
        self.output_grads.append(dy)
        return product(dy, self.weight, self.scale, self.grad_slot and self.grad_slot())

    def backward_onto(self, dy, base):
        self.output_grads.append(dy)
        if base.dtype is not dy.dtype:
            return base + product(dy, self.weight, self.scale)
        return torch.addmm(base, dy, self.weight, alpha=self.scale)

    def gradients(self):
        if not self.output_grads:  # a block of one step writes no memory
            return
        dy = joined(self.output_grads[::-1])
        if self.weight.requires_grad:
            yield self.weight, product(dy.t(), joined(self.inputs), self.scale)
        if self.bias is not None and self.bias.requires_grad:
            yield self.bias, dy.sum(0)


class ReluLinear(Linear):
    """ReLU(x W^T + b) with dropout. The backward pass reads off the output which elements the ReLU and the dropout let
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
        self.output_grads.append(dy)
        return self._backward(dy, *saved, (True, False, False))[0]

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
        scale: the factor of elements that are kept; 1: the matrix after this part multiplies by it
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


@dataclass
class Dropouts:
    """Makes the parts that drop something, for loops over so many steps. `record`: save their masks."""

    steps: int
    training: bool
    record: bool
    device: torch.device

    def scale(self, rate: float) -> float:
        """The factor of elements that are kept."""
        return kept_scale(rate, self.device) if self.training else 1.0

    def part(self, rate: float, scale: float = 1.0, record: bool | None = None, grows: bool = False) -> Part:
        """Dropout with this factor; 1: the matrix after it multiplies by `scale(rate)`. `grows` is as of
        StepDropout."""
        if not self.training or not rate:
            return Part()
        return Dropout(StepDropout(rate, self.steps, grows), scale, self.record if record is None else record)


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
    """Several parts, one after the other.

    Args:
        dtype: the parts compute in this type; None: in that of the input. `backward` returns a gradient of the type
            that it is given
    """

    def __init__(self, *parts: Part, dtype: torch.dtype | None = None):
        self.parts, self.dtype = [part for part in parts if type(part) is not Part], dtype

    def forward(self, x):
        x = cast(x, self.dtype)
        for part in self.parts:
            x = part.forward(x)
        return x

    def forward_onto(self, x, base):
        x = cast(x, self.dtype)
        *others, last = self.parts
        for part in others:
            x = part.forward(x)
        return last.forward_onto(x, base)

    def backward(self, dy):
        outer, dy = dy.dtype, cast(dy, self.dtype)
        for part in reversed(self.parts):
            dy = part.backward(dy)
        return cast(dy, outer)

    def backward_onto(self, dy, base):
        dy = cast(dy, self.dtype)
        first, *others = self.parts
        for part in reversed(others):
            dy = part.backward(dy)
        return first.backward_onto(dy, base)

    def gradients(self):
        for part in self.parts:
            yield from part.gradients()


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
