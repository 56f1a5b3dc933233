"""From the outputs of a step's layers to its memories, and from those to keys and values, forward and backward.

B batch, C width, H heads, D width of a head, R = B * H, L layers, G memories a step, n steps in memory.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.modules.feedback.engine.backward import (
    Gradients,
    LayerNorm,
    Linear,
    Part,
    Projection,
    Slots,
    cast,
)
from fairseq_plugins.modules.feedback.engine.caches import GrowingSource
from fairseq_plugins.modules.feedback.engine.sliding_cache import SlidingSource
from fairseq_plugins.modules.feedback.memory import mix, mix_backward_mixing, mix_backward_outputs


class Mixture:
    """The memories of each step (equation 1, see `memory.mix`), and the gradient of their coefficients."""

    def __init__(self, mixing: Tensor, like: Tensor, record: bool):
        self.mixing, self.record = mixing, record
        self.coefficients = mixing.detach().to(like)
        self.states: list[list[Tensor]] = []
        self.output_grads: list[list[Tensor]] = []

    def forward(self, states: list[Tensor]) -> list[Tensor]:
        """x^0 .. x^L, each [B, C] -> G memories [B, C]"""
        if self.record:
            self.states.append(states)
        return self.mix(states)

    def mix(self, states: list[Tensor]) -> list[Tensor]:
        """As `forward`, for a memory to which no step of the block attends."""
        return mix(self.coefficients, states)

    def backward(self, d_memories: list[Tensor]) -> list[Tensor]:
        """Gradients of G memories [B, C] -> gradients of x^0 .. x^L through them, each [B, C]"""
        self.output_grads.append(d_memories)
        return list(mix_backward_outputs(d_memories, self.coefficients).unbind())

    def gradients(self) -> Gradients:
        if not self.mixing.requires_grad:
            return
        if not self.output_grads:  # a block of one step; data-parallel training needs a gradient all the same
            yield self.mixing, torch.zeros_like(self.mixing)
            return
        states = [torch.cat(steps) for steps in zip(*self.states)]
        d_memories = [torch.cat(steps) for steps in zip(*self.output_grads[::-1])]
        yield self.mixing, mix_backward_mixing(d_memories, states).to(self.mixing)


class MemoryWriter:
    """Makes one more key and value of each source of a memory, by one product.

    N sources.

    Args:
        projection: from a memory to the keys and values of all sources [N * 2 * H * D, C]
        norm: a LayerNorm without parameters, or None
        sources: where keys and values go
        record: save activations for the backward pass
        outer: the type of the memories
        steps: of how many steps gradients have room side by side
    """

    def __init__(
        self,
        projection: Projection,
        norm: nn.LayerNorm | None,
        sources: Sequence[GrowingSource | SlidingSource],
        record: bool,
        outer: torch.dtype,
        steps: int,
    ):
        self.norm = LayerNorm(norm, record) if norm else Part()
        self.linear, self.outer = Linear(projection, record), outer
        self.sources, self.record, self.normalise = sources, record, norm or nn.Identity()
        self.last, self.grad_slots = steps - 1, Slots(steps)
        self.past: Tensor  # memories of earlier blocks after the LayerNorm [B, n, C]

    def split(self, y: Tensor) -> Tensor:
        """[B, N * 2 * H * D] -> a view [N, 2, B, H, D]"""
        return y.view(len(y), len(self.sources), 2, self.sources[0].heads, -1).permute(1, 2, 0, 3, 4)

    @torch.no_grad()
    def fill(self, memories: Tensor) -> None:
        """Fill the sources with the last memories of earlier blocks [B, n, C]."""
        self.past = self.normalise(memories).to(self.linear.weight.dtype)
        for source, (weight, bias) in zip(self.sources, self.projections()):
            assert isinstance(source, SlidingSource), "only a stream has earlier blocks"
            source.fill(torch.mm(self.past[:, -source.span :].flatten(0, 1), weight.t()), bias)
        if not self.record:
            del self.past

    def projections(self) -> list[tuple[Tensor, Tensor | None]]:
        """The weight and bias of each source."""
        n, bias = len(self.sources), self.linear.bias
        return list(zip(self.linear.weight.chunk(n), [None] * n if bias is None else bias.chunk(n)))

    def restart(self, rows: Tensor) -> None:
        """Fill the sources with memories of zeros in these rows [R]."""
        zeros = self.linear.weight.new_zeros(1, self.linear.weight.size(1))  # a LayerNorm leaves them as they are
        for source, pair in zip(self.sources, self.split(F.linear(zeros, self.linear.weight, self.linear.bias))):
            assert isinstance(source, SlidingSource), "only a stream has earlier blocks"
            source.refill(rows, *pair[:, 0])

    def forward(self, memory: Tensor) -> None:
        """memory [B, C]"""
        pairs = self.split(self.linear.forward(cast(self.norm.forward(memory), self.linear.weight.dtype)))
        for source, pair in zip(self.sources, pairs.unbind()):
            source.append(*pair.unbind())

    def backward(self) -> Tensor:
        """Gradient of the last memory that the backward pass has not reached yet [B, C]."""
        grads = [grad for source in self.sources for grad in source.pop_kv_grads()]
        parts = [grad.view(-1, self.sources[0].heads, grad.size(-1)) for grad in grads]
        slot = self.grad_slots.slot(self.last - len(self.linear.output_grads), parts[0], len(self.linear.weight))
        torch.stack(parts, dim=1, out=slot.view(-1, len(parts), *parts[0].shape[1:]))
        return self.norm.backward(cast(self.linear.backward(slot), self.outer))

    def gradients(self) -> Gradients:
        yield from self.linear.gradients()
        streams = [source for source in self.sources if isinstance(source, SlidingSource)]
        if not streams:
            return
        weight, bias = [], []
        for source in streams:
            past = self.past[:, -source.span :].flatten(0, 1)
            for grad in source.fill_grads():
                weight.append(torch.mm(grad.t(), past))
                bias.append(grad.sum(0))
        if self.linear.weight.requires_grad:
            yield self.linear.weight, torch.cat(weight)
        if self.linear.bias is not None and self.linear.bias.requires_grad:
            yield self.linear.bias, torch.cat(bias)
