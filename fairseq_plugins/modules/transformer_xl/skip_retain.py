"""Skip-Retain training ("Memory-efficient Stochastic methods for Memory-based Transformers", section 2.1).

In training a layer is sometimes skipped: its output is its input, and its memory stays as it is. When the layer runs
again, it looks further back.

N layers, numbered l = 0 ... N - 1.
"""

import hashlib
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.checks import choose

# name -> a function of (N, p): the probability of each layer to be skipped. Equation 1 is that of the public code;
# equations 2 to 5 are as the ablations of Table 7 describe them
SCHEDULES: dict[str, Callable[[int, float], list[float]]] = {
    "none": lambda layers, p: [0.0] * layers,
    "linear": lambda layers, p: [0.5 * layer / layers for layer in range(layers - 1)] + [0.0],  # equation 1, without p
    "uniform": lambda layers, p: [p] * layers,  # equation 2
    "not-first": lambda layers, p: [0.0] + [p] * (layers - 1),  # equation 3
    "not-last": lambda layers, p: [p] * (layers - 1) + [0.0],  # equation 4
    "inner": lambda layers, p: [0.0 if layer in (0, layers - 1) else p for layer in range(layers)],  # equation 5
}


def coin(seed: int, update: int, layer: int) -> float:
    """A random number from [0, 1) that depends on its arguments only. So it is equal on all ranks and in all
    micro-batches."""
    digest = hashlib.blake2b(f"{seed} {update} {layer}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53


class SkipRetain(nn.Module):
    """Decides which layers are skipped in an update. In evaluation no layer is.

    Args:
        schedule: a name in SCHEDULES
        layers: N
        p: the probability, for schedules that have one
        seed: of the random numbers

    Raises:
        ValueError: the schedule is not known, or p is out of range
    """

    def __init__(self, schedule: str, layers: int, p: float = 0.1, seed: int = 1):
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"skip probability {p} is not in [0, 1)")
        self.probabilities = choose("schedule", schedule, SCHEDULES)(layers, p)
        self.seed, self.update = seed, 0

    def set_num_updates(self, updates: int) -> None:
        """Tell how many updates were made so far. fairseq calls this method of every module that has it."""
        self.update = updates

    def skipped(self) -> list[bool]:
        """For each layer, whether the present update skips it [N]."""
        return [
            self.training and p > 0 and coin(self.seed, self.update, layer) < p
            for layer, p in enumerate(self.probabilities)
        ]


class Touch(torch.autograd.Function):
    """x, with edges of the graph of autograd to the parameters, whose gradients are None."""

    @staticmethod
    def forward(ctx, x, *parameters):
        ctx.number = len(parameters)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, *[None] * ctx.number


def touch(x: Tensor, parameters: Iterable[nn.Parameter]) -> Tensor:
    """x, which to autograd seems to be computed from the parameters. They get no gradient.

    Data-parallel training waits until all parameters of the graph are ready. Without this it would wait forever for
    those of a skipped layer.
    """
    return Touch.apply(x, *parameters)
