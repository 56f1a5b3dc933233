"""A linear layer in whole numbers of eight bits, for decoding on a CPU: a fourth of the weights' bytes to read.

Each row of the weights, and each row of the input, is divided by its own largest number and rounded to -127 to 127. So
a result does not depend on the other rows of the batch, and sums are exact.
"""

import torch
from torch import Tensor, nn

LARGEST = 127
ZERO = 128  # oneDNN takes rows of unsigned bytes


class Int8Linear(nn.Module):
    """
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
            raise ValueError("int8 needs a processor with AVX512 VNNI, which this one lacks: leave int8 out.")
        whole, scale = rounded(weight)
        self.weight, self.scale = torch.ops.onednn.qlinear_prepack(whole.to(torch.int8), None), scale.squeeze(-1)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out], both float32. Raises ValueError elsewhere than in float32 on a CPU."""
        check_place(x)
        whole, scale = rounded(x.flatten(0, -2))
        bytes = whole.add_(ZERO).to(torch.uint8)
        y = torch.ops.onednn.qlinear_pointwise(
            bytes, 1.0, ZERO, self.weight, self.scale, self.zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        y = y.mul_(scale).unflatten(0, x.shape[:-1])
        return y if self.bias is None else y.add_(self.bias)


def rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """[n, in] -> whole numbers [n, in], in floating point, and the size of one in each row [n, 1]."""
    scale = x.abs().amax(-1, keepdim=True).div_(LARGEST).clamp_(min=torch.finfo(x.dtype).tiny)  # a row may be zeros
    return (x / scale).round_(), scale


def check_place(x: Tensor) -> None:
    if x.device.type != "cpu" or x.dtype is not torch.float32:
        raise ValueError("int8 is for float32 on a CPU: give --cpu without --fp16 and --bf16, or leave int8 out.")
