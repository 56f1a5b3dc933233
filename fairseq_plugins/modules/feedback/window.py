"""How far back the layers of a Feedback Transformer look in a stream (Fan et al., 2020, section 7.6).

H heads, D width of a head, L layers; all widths in memories.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.adaptive_span import ROOM, AdaptiveSpan, trim_lengths
from fairseq_plugins.modules.common.layers import ModuleList
from fairseq_plugins.modules.common.relative_position import RelativePosition


class Limits(NamedTuple):
    """The memories that one layer attends to."""

    position: Tensor  # of each memory, on its key [D, width], scaled as the keys are; the last is that of the nearest
    mask: Tensor | None  # the soft span of each head [H, width]

    @property
    def width(self) -> int:
        return self.position.size(1)

    def for_products(self, dtype: torch.dtype) -> "Limits":
        """The same for products in this type. The mask remains as it is: the gradient of a span is a difference of
        sums, which half precision would round away."""
        return Limits(self.position.to(dtype), self.mask)


class MemoryWindow(nn.Module):
    """The last `span` memories, with learned relative positions that all layers and heads share.

    With adaptive spans (Sukhbaatar et al., 2019) every head of every layer learns a span of its own. A layer sees no
    more than its widest head sees.

    Args:
        span: how many memories a step sees at most.
        num_layers: L.
        heads: H.
        head_dim: D.
        ramp: width of the soft edge of adaptive spans; None for a fixed span.
        initial: adaptive spans at the start, as a fraction of `span`.
        trim_step: `span` minus the width of a layer is a multiple of this number.

    Raises:
        ValueError: the span is less than 1
    """

    def __init__(
        self,
        span: int,
        num_layers: int,
        heads: int,
        head_dim: int,
        ramp: int | None = None,
        initial: float = 0.0,
        trim_step: int = 64,
    ):
        super().__init__()
        if span < 1:
            raise ValueError(f"a span of {span} is too small")
        self.span, self.scale = span, head_dim**-0.5
        self.position = RelativePosition(head_dim, span)
        self.spans: ModuleList[AdaptiveSpan] = ModuleList()
        if ramp is not None:
            self.spans.extend(AdaptiveSpan(heads, span, ramp, initial, trim_step) for _ in range(num_layers))
        self.num_layers = num_layers

    def widths(self) -> list[int]:
        """How many memories each layer sees, the lowest layer first."""
        if not self.spans:
            return [self.span] * self.num_layers
        return [self.span - unseen for unseen in trim_lengths(self.spans)]

    def limits(self) -> list[Limits]:
        """The view of each layer, the lowest layer first. Each table is a view of its own, because the engine
        tells tensors apart by their identity."""
        table, widths = self.position.weight * self.scale, self.widths()
        if not self.spans:
            return [Limits(table[:, -w:], None) for w in widths]
        return [Limits(table[:, -w:], adaptive.mask()[:, -w:]) for w, adaptive in zip(widths, self.spans)]

    def memory_length(self, widths: list[int]) -> int:
        """How many memories go to the next block: the width of the widest layer, and room for spans to grow."""
        return min(self.span, max(widths) + ROOM)
