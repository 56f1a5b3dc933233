"""Sinusoidal embeddings of positions or distances (Vaswani et al., 2017, section 3.5).

P positions, C width.
"""

import torch
from torch import Tensor

# Sine i of n has the wavelength 2 pi 10000^(i / n) in Vaswani et al. (2017). In tensor2tensor and fairseq it is
# 2 pi 10000^(i / (n - 1)), so that the last is 10000 times the first. name -> the divisor of i
WAVELENGTHS = {"vaswani": lambda sines: sines, "tensor2tensor": lambda sines: max(sines - 1, 1)}


def sinusoids(
    positions: Tensor,
    dim: int,
    dtype: torch.dtype,
    wavelengths: str = "vaswani",
    float32_frequencies: bool = False,
) -> Tensor:
    """Positions [P] -> embeddings [P, C]: C / 2 sines, then as many cosines.

    Args:
        wavelengths: a name in WAVELENGTHS
        float32_frequencies: compute the frequencies in float32, even where all else is float64
    """
    exact = torch.promote_types(dtype, torch.float32)
    number = torch.arange(dim // 2, device=positions.device, dtype=torch.float32 if float32_frequencies else exact)
    frequencies = 1 / 10000 ** (number / WAVELENGTHS[wavelengths](dim // 2))
    angles = torch.outer(positions.to(exact), frequencies.to(exact))
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(dtype)
