"""Adaptive attention span (Sukhbaatar et al., 2019; section 4.3 of the all-attention paper).

B batch, H heads, M block length, S maximum span, all lengths in tokens.
"""

import math

import torch
from torch import Tensor, nn

# Tokens that a cache keeps beyond those that are seen, for spans to grow: as in the public code, whatever the trim step
ROOM = 64


def divisor(total: Tensor) -> Tensor:
    """The sum of masked weights, as they are divided by it: plus 1e-8, or in float16, which rounds that to zero and can
    hold no quotient above 65504, plus 2**-12."""
    return total + (2**-12 if total.dtype == torch.float16 else 1e-8)


class AdaptiveSpan(nn.Module):
    """Soft limit on how far back each head looks, learned with the rest of the model.

    m_z(x) = clamp((z + R - x) / R, 0, 1) with x = distance - 1, so the nearest token has x = 0; z = span_ratio * S is
    learned, R is the ramp.

    Args:
        heads: H.
        max_span: S.
        ramp: R.
        initial: span_ratio at the start.
        trim_step: what all heads ignore is cut off in steps of that many tokens.
    """

    def __init__(self, heads: int, max_span: int, ramp: int = 32, initial: float = 0.0, trim_step: int = 64):
        super().__init__()
        self.max_span, self.ramp, self.trim_step = max_span, ramp, trim_step
        self.span_ratio = nn.Parameter(torch.full((heads,), initial))

    def mask(self) -> Tensor:
        """[H, S], the last column that of the nearest token."""
        ratio = self.span_ratio
        wide = torch.promote_types(ratio.dtype, torch.float32)  # half precision cannot count to 8192
        x = torch.arange(self.max_span - 1, -1, -1, device=ratio.device, dtype=wide)
        return ((ratio.to(wide).unsqueeze(1) * self.max_span - x) / self.ramp + 1).clamp(0, 1).to(ratio.dtype)

    def forward(self, weights: Tensor) -> Tensor:
        """Mask attention weights [B, H, M, S'] over the last S' <= S positions, and divide by their sum + 1e-8."""
        masked = weights * self.mask()[:, None, -weights.size(-1) :]
        return masked / divisor(masked.sum(-1, keepdim=True))

    def trim_length(self) -> int:
        """How many of the S positions no head looks at: a multiple of trim_step, less than S."""
        widest = math.ceil(self.span_ratio.max().item() * self.max_span + self.ramp)
        unseen = self.max_span - min(max(widest, 0), self.max_span)
        return min(unseen, self.max_span - 1) // self.trim_step * self.trim_step

    def loss(self, coefficient: float) -> Tensor:
        """coefficient * S * the mean ratio."""
        return coefficient * self.max_span * self.span_ratio.mean()

    @torch.no_grad()
    def clamp_(self, master: Tensor | None = None) -> None:
        """Bring the ratios back to [0, 1], after every update; also what they are rounded from, if they are."""
        for ratio in (self.span_ratio, master):
            if ratio is not None:
                ratio.clamp_(0, 1)

    def current(self) -> Tensor:
        """The learned spans z in tokens, without the ramp [H]."""
        return self.span_ratio.detach() * self.max_span
