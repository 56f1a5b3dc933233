"""The fast engine with attention as one kernel: keys and values are read once a step, and no weights are kept.

The buffers hold of each step the query, the output, its gradient and four numbers a row. The backward pass computes the
weights again. The kernels are in `triton_kernels`; where they cannot run, this is the fast engine as it is.

R rows (batch times heads), D width of a head, T steps of a block, S positions before the block, P places of the
buffers, W positions that a layer sees.
"""

import importlib.util
import os

import torch
from torch import Tensor

from fairseq_plugins.modules.feedback.attention import GrowingSource
from fairseq_plugins.modules.feedback.fast import FastRecurrence
from fairseq_plugins.modules.feedback.manual_backward import Dropout, Linear, Part
from fairseq_plugins.modules.feedback.sliding_cache import ByPosition, add
from fairseq_plugins.modules.feedback.state import TorchSteps
from fairseq_plugins.modules.feedback.window import Limits

LEAST_BLOCK, BLOCK_ELEMENTS = 16, 4096  # places or steps that a program reads at once; places times width of a head


def installed() -> bool:
    """Is Triton?"""
    return importlib.util.find_spec("triton") is not None


def runs_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Can the kernels compute there? Their sums are of float32, too few digits for float64."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return dtype is not torch.float64 and installed() and (device.type == "cuda" or interpreted)


class Use:
    """One layer's attention to a source, in all steps of a block. It launches the kernels.

    Args:
        like: queries are like it [R, D]
        steps: T
        width: W
        before: S
        heads: into how many heads the rows of the batch are split
        position: relative positions [D, W], or None
        span: soft spans of the heads [heads, W], or None
        padding: what is added to the scores [R, 1, P], or None
        rate: of dropout of the weights
    """

    def __init__(
        self,
        like: Tensor,
        steps: int,
        width: int,
        before: int,
        heads: int,
        position: Tensor | None = None,
        span: Tensor | None = None,
        padding: Tensor | None = None,
        rate: float = 0.0,
    ):
        self.queries, self.outputs = like.new_empty(steps, *like.shape), like.new_empty(steps, *like.shape)
        self.output_grads: Tensor  # [T, R, D], made by the backward pass
        self.stats = like.new_empty(steps, len(like), 4, dtype=torch.float)
        self.steps, self.width, self.before = steps, width, before
        self.position = None if position is None else position.detach().t().contiguous()
        self.span = None if span is None else span.detach().contiguous()
        self.padding = None if padding is None else padding.squeeze(1).contiguous()
        self.seed = torch.randint(2**31, (1,), device=like.device) if rate else self.stats
        head_dim = like.size(1)
        lanes = 1 << (head_dim - 1).bit_length()
        block = max(LEAST_BLOCK, BLOCK_ELEMENTS // lanes)
        self.rate = rate
        self.epsilon = 2**-12 if like.dtype is torch.float16 else 1e-8  # as `adaptive_span.divisor` adds
        self.constants = {
            "HEADS": heads,
            "D": head_dim,
            "LANES": lanes,
            "BLOCK": min(block, 1 << (max(width, steps) - 1).bit_length()),
            "POSITIONS": position is not None,
            "SPANS": span is not None,
            "PADDED": padding is not None,
            "DROPS": rate > 0,
        }

    def read(self, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        """The arguments for what all kernels read; keys and values [R, P, D]."""
        assert keys.is_contiguous() and values.is_contiguous(), "the kernels know no strides"
        unread = self.stats
        tables = (unread if table is None else table for table in (self.position, self.span, self.padding))
        return self.queries, keys, values, *tables, self.seed, self.stats

    def sizes(self, keys: Tensor) -> tuple[float, int, int, int, int]:
        return self.rate, self.steps, self.width, self.before, keys.size(1)

    def forward(self, step: int, keys: Tensor, values: Tensor) -> Tensor:
        """The output of the step, whose query has been written to `queries` [R, D]."""
        from fairseq_plugins.modules.feedback import triton_kernels as kernels

        arguments = *self.read(keys, values), self.outputs, step, *self.sizes(keys)
        kernels.forward[(len(keys),)](*arguments, **self.constants, EPSILON=self.epsilon)
        return self.outputs[step]

    def query_grad(self, step: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """For the step's `output_grads`: the gradient of its query [R, D], with positions those of the scores, and with
        spans those of each row's span, both [R, W], else empty."""
        from fairseq_plugins.modules.feedback import triton_kernels as kernels

        query = torch.empty_like(self.queries[step])
        scores = self.stats.new_zeros(len(keys), self.width if self.position is not None else 0)
        span = self.stats.new_zeros(len(keys), self.width if self.span is not None else 0)
        arguments = *self.read(keys, values), self.outputs, self.output_grads, query, scores, span
        kernels.query_grad[(len(keys),)](*arguments, step, *self.sizes(keys), **self.constants)
        return query, scores, span

    def pull(self, keys: Tensor, values: Tensor, first: int, totals: tuple[Tensor, Tensor]) -> None:
        """Add the gradients of n keys and values from place `first` on, over all steps, to the totals [R, n, D]."""
        from fairseq_plugins.modules.feedback import triton_kernels as kernels

        arguments = *self.read(keys, values), self.output_grads, *totals, first, *self.sizes(keys)
        kernels.pull[(len(keys), totals[0].size(1))](*arguments, **self.constants)


def pulled(uses: list[Use], keys: Tensor, values: Tensor, first: int, places: int) -> tuple[Tensor, Tensor]:
    """Gradients of so many keys and values from place `first` on, both [R, places, D], over all uses."""
    shape = len(keys), places, keys.size(2)
    key, value = (torch.zeros(shape, dtype=torch.float, device=keys.device) for _ in range(2))
    for use in uses:
        use.pull(keys, values, first, (key, value))
    return key.to(keys.dtype), value.to(values.dtype)


class FusedGrowingSource(GrowingSource):
    """A growing source whose gradients are computed when the loop of the backward pass reaches a position."""

    def __init__(self, *args):
        super().__init__(*args)
        self.uses: list[Use] = []

    def pop_kv_grads(self):
        self.steps -= 1
        key, value = pulled(self.uses, self.keys, self.values, self.steps, 1)
        return key[:, 0], value[:, 0]


class FusedSlidingSource(ByPosition):
    """A sliding source whose gradients are computed by kernels."""

    def __init__(self, *args):
        super().__init__(*args)
        self.fused_uses: list[Use] = []

    def pop_kv_grads(self):
        self.steps -= 1
        key, value = pulled(self.fused_uses, self.keys, self.values, self.span + self.steps, 1)
        return key[:, 0], value[:, 0]

    def fill_grads(self):
        grads = pulled(self.fused_uses, self.keys, self.values, 0, self.span)
        del self.keys, self.values
        self.fused_uses.clear()
        return tuple(x.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(0, 1).flatten(1) for x in grads)


class FusedAttention(Part):
    """Attention of one layer to the memory, in training.

    Args:
        query: makes the queries
        use: what the kernels read and write
        source: the memory
        heads: of the layer
        position: relative positions [D, W], or None
        mask: the spans [H, W], or None
    """

    def __init__(
        self,
        query: Linear,
        use: Use,
        source: FusedGrowingSource | FusedSlidingSource,
        heads: int,
        position: Tensor | None = None,
        mask: Tensor | None = None,
    ):
        self.query, self.use, self.source, self.heads = query, use, source, heads
        self.position, self.mask = position, mask
        self.position_grad: Tensor | None = None
        self.mask_grad: Tensor | None = None

    def buffers(self) -> tuple[int, Tensor, Tensor]:
        """The number of the present step, keys and values [R, P, D]."""
        if isinstance(self.source, FusedGrowingSource):
            return self.source.steps - 1, self.source.keys, self.source.values
        return self.source.steps, self.source.keys, self.source.values

    def forward(self, x):
        step, keys, values = self.buffers()
        self.query.forward_into(x, self.use.queries[step].view(len(x), -1))
        return self.use.forward(step, keys, values).view(len(x), -1)

    def output_grad_slot(self) -> Tensor:
        """Where the gradient of the output is to be written [B, C]."""
        step, _, _ = self.buffers()
        if step == self.use.steps - 1:
            self.use.output_grads = torch.empty_like(self.use.queries)
        slot = self.use.output_grads[step]
        return slot.view(-1, self.heads * slot.size(1))

    def query_grad(self) -> Tensor:
        """For the gradient of the output in its slot, that of the query [B, C]."""
        step, keys, values = self.buffers()
        query, scores, span = self.use.query_grad(step, keys, values)
        if self.position is not None:
            self.position_grad = add(self.position_grad, torch.mm(self.use.queries[step].float().t(), scores))
        if self.mask is not None:
            self.mask_grad = add(self.mask_grad, span.view(-1, self.heads, span.size(1)).sum(0))
        return query.view(-1, self.heads * query.size(1))

    def backward(self, dy):
        return self.query.backward(self.query_grad())

    def backward_onto(self, dy, base):
        return self.query.backward_onto(self.query_grad(), base)

    def gradients(self):
        yield from self.query.gradients()
        for tensor, gradient in ((self.position, self.position_grad), (self.mask, self.mask_grad)):
            if tensor is not None and gradient is not None:
                yield tensor, gradient.to(tensor)


class FusedSteps(TorchSteps):
    """What a step's attention to the memory is made of, by kernels."""

    growing = FusedGrowingSource

    @staticmethod
    def sliding(device):
        return FusedSlidingSource

    @staticmethod
    def attention(query, source, weight_dropout, heads, record, limits: Limits | None):
        assert record, "the kernels are for training"
        keys, rate = source.keys, weight_dropout.draws.rate if isinstance(weight_dropout, Dropout) else 0.0
        if limits is None:
            steps = keys.size(1)
            padding = None if source.mask is None else source.mask[..., :steps]
            use = Use(keys[:, 0], steps, steps, 1, heads, padding=padding, rate=rate)
            source.uses.append(use)
            return FusedAttention(query, use, source, heads)
        use = Use(keys[:, 0], source.capacity, limits.width, source.span, heads, *limits, rate=rate)
        source.fused_uses.append(use)
        return FusedAttention(query, use, source, heads, *limits)


class FusedRecurrence(FastRecurrence):
    """The fast engine, with attention to the memory by kernels in training, where they can run. Decoding and evaluation
    are those of the fast engine. Dropout draws other numbers."""

    def steps(self, like, record):
        return FusedSteps if record and runs_on(like.device, like.dtype) else TorchSteps
