"""A linear layer in whole numbers of eight bits, for decoding on a CPU: a fourth of the weights' bytes to read.

Each row of the weights, and each row of the input, is divided by its own largest number and rounded to -127 to 127. So
a result does not depend on the other rows of the batch, and sums are exact.
"""

from typing import Any

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.untraced import untraced

LARGEST = 127
ZERO = 128  # oneDNN takes rows of unsigned bytes


class Int8Linear(nn.Module):
    """The result has no gradient.

    Args:
        layer: the linear layer that this one takes the place of, in float32 on a CPU

    Raises:
        ValueError: it is on another device or in half precision, or the processor has no products of eight bits
    """

    def __init__(self, layer: nn.Linear):
        super().__init__()
        weight = layer.weight.detach()
        check_place(weight)
        if not (torch.backends.mkldnn.is_available() and torch.cpu._is_vnni_supported()):
            raise ValueError("int8 needs oneDNN and a processor with AVX512 VNNI")
        whole, scale = rounded(weight)
        self.whole, self.scale = whole.to(torch.int8), scale.squeeze(-1)
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.pack()

    def pack(self) -> None:
        """Lay the weights out as oneDNN reads them."""
        self.packed = torch.ops.onednn.qlinear_prepack(self.whole, None)
        self.zeros = torch.zeros(len(self.whole), dtype=torch.int32)

    @untraced
    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out], both float32. Raises ValueError elsewhere than in float32 on a CPU."""
        check_place(x)
        whole, scale = rounded(x.reshape(-1, x.size(-1)))
        rows = whole.add_(ZERO).to(torch.uint8)
        y = torch.ops.onednn.qlinear_pointwise(
            rows, 1.0, ZERO, self.packed, self.scale, self.zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        y = y.mul_(scale).view(*x.shape[:-1], y.size(-1))
        return y if self.bias is None else y.add_(self.bias)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "packed"}  # it cannot be copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.pack()


def rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """[n, in] -> whole numbers [n, in], in floating point, and the size of one in each row [n, 1]."""
    scale = x.abs().amax(-1, keepdim=True).div_(LARGEST).clamp_(min=torch.finfo(x.dtype).tiny)  # a row may be zeros
    return (x / scale).round_(), scale


def check_place(x: Tensor) -> None:
    if x.device.type != "cpu" or x.dtype is not torch.float32:
        raise ValueError("int8 is for float32 on a CPU (--cpu, without --fp16)")
