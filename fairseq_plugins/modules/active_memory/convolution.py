"""Convolutions over time, causal or to both sides, all at once or token by token.

B batch, T length, C width, K kernel size.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.modules.active_memory.sequence_ends import ZeroEnds


def reach(kernel_size: int, causal: bool) -> tuple[int, int]:
    """How many tokens to the left and to the right of its own an output sees. Of the K - 1 of an even kernel the larger
    half lies to the right: 9 and 10 for K = 20."""
    left = kernel_size - 1 if causal else (kernel_size - 1) // 2
    return left, kernel_size - 1 - left


class Inputs:
    """The last K - 1 inputs of a causal convolution [B, K - 1, C]: all that decoding has to keep of the past."""

    def __init__(self, last: Tensor):
        self.last = last

    def push(self, x: Tensor) -> Tensor:
        """Those and one more [B, C] -> [B, K, C]; the oldest is forgotten."""
        window = torch.cat([self.last, x.unsqueeze(1)], dim=1)
        self.last = window[:, 1:]
        return window

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] of the batch as row i."""
        self.last = self.last.index_select(0, order)


class TimeConvolution(nn.Module):
    """y_t = sum_j W_j x_(t - left + j) + b, with full matrices W_j between channels.

    Args:
        dim: C, of inputs and outputs
        kernel_size: K
        ends: what stands before and behind a sequence; its sizes make the convolution causal or not
        outputs: how many convolutions of the same input are computed at once, each [B, T, C]
    """

    def __init__(self, dim: int, kernel_size: int, ends: ZeroEnds, outputs: int = 1):
        super().__init__()
        self.ends, self.outputs = ends, outputs
        self.weight = nn.Parameter(torch.empty(outputs * dim, kernel_size, dim))
        self.bias = nn.Parameter(torch.empty(outputs * dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot uniform, biases too, as in the authors' code."""
        _, kernel_size, dim = self.weight.shape
        nn.init.uniform_(self.weight, -math.sqrt(3 / (kernel_size * dim)), math.sqrt(3 / (kernel_size * dim)))
        nn.init.uniform_(self.bias, -math.sqrt(3 / dim), math.sqrt(3 / dim))

    def forward(self, x: Tensor, padding: Tensor | None = None) -> tuple[Tensor, ...]:
        """x [B, T, C], padding at the end [B, T] -> [B, T, C] for each output."""
        # a picture of height 1 with channels last: a quarter faster than conv1d on a CPU, and no copy
        picture = self.ends(x, padding).transpose(1, 2).unsqueeze(2)
        kernel = self.weight.transpose(1, 2).unsqueeze(2)
        return F.conv2d(picture, kernel, self.bias).squeeze(2).transpose(1, 2).chunk(self.outputs, dim=-1)

    def start(self, like: Tensor) -> Inputs:
        """What decoding begins with, for inputs like [B, C]."""
        return Inputs(self.ends.start(like))

    def step(self, inputs: Inputs, x: Tensor) -> tuple[Tensor, ...]:
        """One token [B, C] -> [B, C] for each output."""
        y = F.linear(inputs.push(x).flatten(1), self.weight.flatten(1), self.bias)
        return y.chunk(self.outputs, dim=-1)
