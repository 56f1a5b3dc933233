"""Adaptive attention span (Sukhbaatar et al., 2019; section 4.3 of the all-attention paper).

B batch, H heads, M block length, S maximum span, all lengths in tokens.
"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

# How many more tokens a memory holds than the heads see, so that spans can grow. The number is that of the public code
ROOM = 64


def divisor(total: Tensor) -> Tensor:
    """The divisor of masked weights: their sum, plus 1e-8. In float16 it is plus 2**-12, because float16 rounds
    1e-8 to zero and holds no quotient above 65504."""
    return total + (2**-12 if total.dtype == torch.float16 else 1e-8)


class AdaptiveSpan(nn.Module):
    """Soft limit on how far back each head looks, learned with the rest of the model.

    m_z(x) = clamp((z + R - x) / R, 0, 1), where x = distance - 1, so the nearest token has x = 0. The span z =
    span_ratio * S is learned, R is the ramp.

    Args:
        heads: H.
        max_span: S.
        ramp: R.
        initial: span_ratio at the start.
        trim_step: `trim_length` is a multiple of it.
    """

    def __init__(self, heads: int, max_span: int, ramp: int = 32, initial: float = 0.0, trim_step: int = 64):
        super().__init__()
        self.max_span, self.ramp, self.trim_step = max_span, ramp, trim_step
        self.span_ratio = nn.Parameter(torch.full((heads,), initial))

    def mask(self) -> Tensor:
        """The mask m_z [H, S]. The last column is that of the nearest token."""
        ratio = self.span_ratio
        wide = torch.promote_types(ratio.dtype, torch.float32)  # half precision does not hold all integers up to 8192
        x = torch.arange(self.max_span - 1, -1, -1, device=ratio.device, dtype=wide)
        return ((ratio.to(wide).unsqueeze(1) * self.max_span - x) / self.ramp + 1).clamp(0, 1).to(ratio.dtype)

    def forward(self, weights: Tensor) -> Tensor:
        """Attention weights [B, H, M, S'] over the last S' <= S positions -> the same, masked and divided by their
        sum."""
        masked = weights * self.mask()[:, None, -weights.size(-1) :]
        return masked / divisor(masked.sum(-1, keepdim=True))

    def trim_length(self) -> int:
        """How many of the S positions can be left out because no head looks at them: a multiple of trim_step, less than
        S."""
        return trim_lengths([self])[0]

    def unseen(self, widest: float) -> int:
        """`trim_length` where the widest head has this ratio."""
        seen = math.ceil(widest * self.max_span + self.ramp)
        unseen = self.max_span - min(max(seen, 0), self.max_span)
        return min(unseen, self.max_span - 1) // self.trim_step * self.trim_step

    def loss(self, coefficient: float) -> Tensor:
        """The loss that keeps spans short: coefficient * S * the mean ratio."""
        return coefficient * self.max_span * self.span_ratio.mean()

    @torch.no_grad()
    def clamp_(self, master: Tensor | None = None) -> None:
        """Bring the ratios back to [0, 1]. To be called after every update.

        Args:
            master: the copy in float32 that the optimizer updates, if there is one
        """
        for ratio in (self.span_ratio, master):
            if ratio is not None:
                ratio.clamp_(0, 1)

    def current(self) -> Tensor:
        """The learned spans z in tokens [H], without the ramp."""
        return self.span_ratio.detach() * self.max_span


def trim_lengths(layers: Iterable[AdaptiveSpan]) -> list[int]:
    """The `trim_length` of each of several layers. The host waits for the device once, not once a layer."""
    spans = list(layers)
    widest = torch.stack([span.span_ratio.detach().max() for span in spans]).tolist()
    return [span.unseen(ratio) for span, ratio in zip(spans, widest)]
