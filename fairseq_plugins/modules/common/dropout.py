"""Dropout whose masks are cheap on a CPU.

On a CPU torch calls its generator once for each element of a mask, which takes longer than the attention around it.
Here one call gives the random bits of four elements.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

BITS = 16


class Dropout(nn.Dropout):
    """nn.Dropout, except that on a CPU its probability is rounded to a multiple of 2^-16."""

    @property
    def rate(self) -> float:
        """The probability in the present mode: 0 in evaluation."""
        return self.p if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.rate:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        return Masked.apply(x, *draw(x, self.rate))


class Masked(torch.autograd.Function):
    """x * mask * scale. It saves only the mask."""

    @staticmethod
    def forward(ctx, x, mask, scale):
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return (x * mask).mul_(scale)

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return (grad * mask).mul_(ctx.scale), None, None


def draw(like: Tensor, rate: float) -> tuple[Tensor, float]:
    """A mask for a tensor, False with probability `rate`; and the factor of the elements that are kept,
    1 / (1 - rate)."""
    scale = kept_scale(rate, like.device)
    if like.device.type != "cpu" or rate == 1:
        return like.new_empty(like.shape, dtype=torch.bool).bernoulli_(1 - rate), scale
    return random_numbers(like) >= lowest_kept(rate), scale


def draw_signs(x: Tensor, rate: float) -> Tensor:
    """The tensor x >= 0 with a minus before each element that dropout drops, in place. On a CPU this is faster than
    `draw` and a product with its mask."""
    if x.device.type != "cpu":
        return torch.copysign(x, torch.rand_like(x, dtype=torch.float32).sub_(rate), out=x)
    return torch.copysign(x, random_numbers(x).float().sub_(lowest_kept(rate)), out=x)


def random_numbers(like: Tensor) -> Tensor:
    """Integers of BITS random bits, of the shape of a tensor."""
    numbers = torch.empty(-(-like.numel() * BITS // 64), dtype=torch.int64).random_(-(2**63), None)
    return numbers.view(torch.int16)[: like.numel()].view(like.shape)


def lowest_kept(rate: float) -> int:
    """Elements with a smaller random number are dropped."""
    return min(round(rate * 2**BITS), 2**BITS - 1) - 2 ** (BITS - 1)


def kept_scale(rate: float, device: torch.device) -> float:
    """The factor of the elements that dropout keeps."""
    if device.type != "cpu" or rate == 1:
        return 1 / (1 - rate) if rate < 1 else 0.0
    return 2**BITS / max(2**BITS - round(rate * 2**BITS), 1)


class StepDropout:
    """The masks of one tensor of each step of a loop. They are drawn for many steps at once, which is cheaper.

    Args:
        rate: probability that an element is dropped
        steps: for so many steps masks are drawn at once, when the first of these steps comes
        grows: the last dimension grows by one at every step
    """

    def __init__(self, rate: float, steps: int, grows: bool = False):
        self.rate, self.steps, self.grows = rate, steps, grows
        self.masks: Iterator[Tensor] = iter(())

    def mask(self, like: Tensor) -> Tensor:
        """The mask of the next step, False where an element of a tensor like this is dropped."""
        mask = next(self.masks, None)
        if mask is None or mask.shape[:-1] != like.shape[:-1]:  # rows leave the batch when their sentences end
            shape = [self.steps, *like.shape]
            if self.grows:
                shape[-1] += self.steps - 1
            masks, _ = draw(like.new_empty(()).expand(shape), self.rate)
            self.masks = iter(masks.unbind())
            mask = next(self.masks)
        return mask[..., : like.size(-1)]
