"""Linear layers for few rows on a CPU, as decoding has them."""

import ctypes
from pathlib import Path

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.compiled import PANEL, CLinear, library, threads_for

SOURCE = Path(__file__).with_name("few_rows.c")
FEW_ROWS = 32  # with many more, torch's products are as fast
MANY_WEIGHTS = 2**15  # with fewer, the call takes longer than the product


def linear(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x) for x [..., in]. Without gradients, a linear layer of few rows reads its weights two to five times as
    fast as torch does."""
    found = library(SOURCE, x.dtype) if computes(layer, x) else None
    if found is None:
        return layer(x)
    assert isinstance(layer, nn.Linear)
    x, weight = x.contiguous(), layer.weight
    y = x.new_empty(*x.shape[:-1], layer.out_features)
    rows = x.numel() // layer.in_features
    panels = x.new_empty(rows + PANEL, layer.in_features)
    found.linear(
        ctypes.byref(CLinear.of(weight, layer.bias)),
        *(ctypes.c_void_p(z.data_ptr()) for z in (x, y)),
        *(ctypes.c_int64(n) for n in (rows, threads_for(rows * weight.numel()))),
        ctypes.c_void_p(panels.data_ptr()),
    )
    return y


def computes(layer: nn.Module, x: Tensor) -> bool:
    """Whether the compiled product computes layer(x), and is faster."""
    return (
        type(layer) is nn.Linear
        and not (layer._forward_hooks or layer._forward_pre_hooks)
        and x.device.type == layer.weight.device.type == "cpu"
        and x.dtype is layer.weight.dtype
        and x.size(-1) == layer.in_features
        and 0 < x.numel() <= FEW_ROWS * layer.in_features
        and layer.weight.numel() >= MANY_WEIGHTS
        and layer.weight.is_contiguous()
        and not (torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"))
        and not transformed(x)
    )


def transformed(x: Tensor) -> bool:
    """Whether torch follows the operations, rather than to compute them at once."""
    return (
        type(x) is not Tensor
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._are_functorch_transforms_active()
    )
