"""Activation functions by fairseq's names. Each has its derivative, for backward passes that are written by hand."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn import functional as F

aten = torch.ops.aten


class Activation(NamedTuple):
    """forward(x) -> y; backward(dy, x, y) -> dx. All tensors have one shape."""

    forward: Callable
    backward: Callable


ACTIVATIONS = {
    "relu": Activation(F.relu, lambda dy, x, y: aten.threshold_backward(dy, y, 0)),
    "gelu": Activation(F.gelu, lambda dy, x, y: aten.gelu_backward(dy, x)),
    "gelu_accurate": Activation(
        lambda x: F.gelu(x, approximate="tanh"), lambda dy, x, y: aten.gelu_backward(dy, x, approximate="tanh")
    ),
    "swish": Activation(F.silu, lambda dy, x, y: aten.silu_backward(dy, x)),
    "tanh": Activation(torch.tanh, lambda dy, x, y: aten.tanh_backward(dy, y)),
    "linear": Activation(lambda x: x, lambda dy, x, y: dy),
}
