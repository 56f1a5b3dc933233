"""The float32 copies of the parameters that fairseq's optimisers for --fp16 and --bf16 hold."""

from torch import Tensor
from torch.nn import Parameter


def master_copies(optimizer) -> dict[Parameter, Tensor]:
    """The float32 copy of each parameter that the optimiser updates in place of the parameter, which is then rounded
    from it. Empty where the optimiser updates the parameters themselves."""
    halves, masters = getattr(optimizer, "fp16_params", []), getattr(optimizer, "fp32_params", [])
    if isinstance(masters, dict):  # one flat tensor
        (flat,) = masters.values()
        pieces = flat.detach().split([half.numel() for half in halves])
        masters = [piece.view_as(half) for piece, half in zip(pieces, halves)]
    return {half: master.detach() for half, master in zip(halves, masters)}
