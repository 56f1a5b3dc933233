"""Linear layers for few rows on a CPU, as decoding has them."""

import ctypes
from pathlib import Path

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.compiled import CLinear, address, library

SOURCE = Path(__file__).with_name("few_rows.c")
FEW_ROWS = 32  # with more, torch's products are as fast
MANY_WEIGHTS = 2**15  # with fewer, the call takes longer than the product


def linear(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x) for x [..., in]. Without gradients, a linear layer of few rows reads its weights two to five times as
    fast as torch does."""
    if type(layer) is not nn.Linear or not computes(layer, x):
        return layer(x)
    found = library(SOURCE, x.dtype)
    if found is None:
        return layer(x)
    x = x.contiguous()
    y = x.new_empty(*x.shape[:-1], layer.out_features)
    rows, threads = x.numel() // layer.in_features, torch.get_num_threads()
    found.linear(
        *(ctypes.byref(CLinear.of(layer)), ctypes.c_void_p(address(x)), ctypes.c_void_p(address(y))),
        *(ctypes.c_int64(rows), ctypes.c_int64(threads)),
    )
    return y


def computes(layer: nn.Linear, x: Tensor) -> bool:
    """Whether the compiled product computes layer(x), and is faster."""
    return (
        x.device.type == "cpu"
        and type(x) is Tensor
        and x.dtype is layer.weight.dtype
        and 0 < x.numel() <= FEW_ROWS * layer.in_features
        and layer.weight.numel() >= MANY_WEIGHTS
        and layer.weight.is_contiguous()
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )
