"""Skip-Retain training ("Memory-efficient Stochastic methods for Memory-based Transformers", section 2.1).

In training a layer is now and then skipped: its input is its output, and its memory stays as it is, so that it looks
further back when it comes to its turn again. N layers, numbered l = 0 ... N - 1.
"""

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor, nn


def linear(layers: int, p: float) -> list[float]:
    """Equation 1, which has no p: 0.5 l / N, and 0 for the last layer."""
    return [0.5 * layer / layers for layer in range(layers - 1)] + [0.0]


def uniform(layers: int, p: float) -> list[float]:
    """Equation 2: p for all layers."""
    return [p] * layers


def not_first(layers: int, p: float) -> list[float]:
    """Equation 3: p for all layers but the first."""
    return [0.0] + [p] * (layers - 1)


def not_last(layers: int, p: float) -> list[float]:
    """Equation 4: p for all layers but the last."""
    return [p] * (layers - 1) + [0.0]


def inner(layers: int, p: float) -> list[float]:
    """Equation 5: p for all layers but the first and the last."""
    return [0.0 if layer in (0, layers - 1) else p for layer in range(layers)]


# (N, p) -> the probability of each layer to be skipped. Equations 1 to 5 are (1) as in the public code and (2) to (5)
# as the ablations of Table 7 describe them
SCHEDULES = {
    "none": lambda layers, p: [0.0] * layers,
    "linear": linear,
    "uniform": uniform,
    "not-first": not_first,
    "not-last": not_last,
    "inner": inner,
}


def coin(seed: int, update: int, layer: int) -> float:
    """A number from [0, 1) that depends on its arguments alone: equal for all workers and micro-batches."""
    digest = hashlib.blake2b(f"{seed} {update} {layer}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53


class SkipRetain(nn.Module):
    """Which layers to skip in the present update; none in evaluation.

    Args:
        schedule: one of SCHEDULES
        layers: N
        p: of the schedules that take one
        seed: of the coins
    """

    def __init__(self, schedule: str, layers: int, p: float = 0.1, seed: int = 1):
        super().__init__()
        if schedule not in SCHEDULES:
            raise ValueError(f"schedule {schedule!r} is not one of {', '.join(SCHEDULES)}")
        if not 0 <= p < 1:
            raise ValueError(f"skip probability {p} is out of range; choose at least 0 and less than 1")
        self.probabilities = SCHEDULES[schedule](layers, p)
        self.seed, self.update = seed, 0

    def set_num_updates(self, updates: int) -> None:
        """How many updates were made so far; fairseq tells every module that has this method."""
        self.update = updates

    def skipped(self) -> list[bool]:
        """True for the layers to skip."""
        return [
            self.training and p > 0 and coin(self.seed, self.update, layer) < p
            for layer, p in enumerate(self.probabilities)
        ]


class Touch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *parameters):
        ctx.number = len(parameters)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, *[None] * ctx.number


def touch(x: Tensor, parameters: Iterable[nn.Parameter]) -> Tensor:
    """x, computed from the parameters as far as autograd can tell, though no gradient reaches them.

    Data-parallel training waits for all parameters, and would wait for ever for those of a skipped layer.
    """
    return Touch.apply(x, *parameters)
