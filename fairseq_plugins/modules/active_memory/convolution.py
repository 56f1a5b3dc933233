"""Convolutions over time, causal or bidirectional, of a whole sequence or token by token.

B batch, T length, C width, K kernel size.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.modules.active_memory.sequence_ends import ZeroEnds


def reach(kernel_size: int, causal: bool) -> tuple[int, int]:
    """How many tokens an output sees to the left and to the right of its own, K - 1 together. For an even K one more
    lies to the right: 9 and 10 for K = 20."""
    left = kernel_size - 1 if causal else (kernel_size - 1) // 2
    return left, kernel_size - 1 - left


class LastInputs:
    """The decoding state of a causal convolution: its last K - 1 inputs [B, K - 1, C]."""

    def __init__(self, last: Tensor):
        self.last = last

    def push(self, x: Tensor) -> Tensor:
        """Append an input [B, C]. Return it and the K - 1 before it [B, K, C]."""
        window = torch.cat([self.last, x.unsqueeze(1)], dim=1)
        self.last = window[:, 1:]
        return window

    def reorder(self, order: Tensor) -> None:
        self.last = self.last.index_select(0, order)


class TimeConvolution(nn.Module):
    """y_t = sum_j W_j x_(t - left + j) + b, where the W_j are full matrices between channels.

    Args:
        dim: C, of inputs and outputs
        ends: of the sequences. Their sizes make the convolution causal or bidirectional
        outputs: how many convolutions of the same input are computed at once
    """

    def __init__(self, dim: int, kernel_size: int, ends: ZeroEnds, outputs: int = 1):
        super().__init__()
        self.ends, self.outputs = ends, outputs
        self.weight = nn.Parameter(torch.empty(outputs * dim, kernel_size, dim))
        self.bias = nn.Parameter(torch.empty(outputs * dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights and biases as in the authors' code: Glorot uniform."""
        _, kernel_size, dim = self.weight.shape
        nn.init.uniform_(self.weight, -math.sqrt(3 / (kernel_size * dim)), math.sqrt(3 / (kernel_size * dim)))
        nn.init.uniform_(self.bias, -math.sqrt(3 / dim), math.sqrt(3 / dim))

    def forward(self, x: Tensor, padding: Tensor | None = None) -> tuple[Tensor, ...]:
        """x [B, T, C], padding at the end [B, T] -> [B, T, C] for each output"""
        # conv2d of a picture of height 1 with channels last is a quarter faster than conv1d on a CPU, and needs no copy
        picture = self.ends(x, padding).transpose(1, 2).unsqueeze(2)
        kernel = self.weight.transpose(1, 2).unsqueeze(2)
        return F.conv2d(picture, kernel, self.bias).squeeze(2).transpose(1, 2).chunk(self.outputs, dim=-1)

    def start(self, like: Tensor) -> LastInputs:
        """The state before the first token, for inputs like [B, C]."""
        return LastInputs(self.ends.start(like))

    def step(self, inputs: LastInputs, x: Tensor) -> tuple[Tensor, ...]:
        """One token [B, C] -> [B, C] for each output"""
        y = F.linear(inputs.push(x).flatten(1), self.weight.flatten(1), self.bias)
        return y.chunk(self.outputs, dim=-1)
