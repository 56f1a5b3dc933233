"""What fairseq's optimiser for --fp16 and --bf16 keeps in float32."""

from torch import Tensor
from torch.nn import Parameter


def master_copies(optimizer) -> dict[Parameter, Tensor]:
    """The float32 copies that are updated in the place of the model's parameters, which are rounded from them; empty
    where the parameters themselves are updated."""
    halves, masters = getattr(optimizer, "fp16_params", []), getattr(optimizer, "fp32_params", [])
    if isinstance(masters, dict):  # one long tensor
        (flat,) = masters.values()
        pieces = flat.detach().split([half.numel() for half in halves])
        masters = [piece.view_as(half) for piece, half in zip(pieces, halves)]
    return {half: master.detach() for half, master in zip(halves, masters)}
