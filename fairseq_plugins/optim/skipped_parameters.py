"""The parameters of skipped layers in a step of the optimiser: frozen, or moved on."""

from collections.abc import Iterable
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter

from fairseq_plugins.optim.half_precision import master_copies


@contextmanager
def frozen_for_step(optimizer, parameters: Iterable[Parameter]):
    """A step of fairseq's optimiser in this context changes neither these parameters nor their optimiser state, as
    if the skipped layer were not there. The Skip Cross-Head paper does not say how it updates them.

    Without it they could change: data-parallel training gives every parameter a gradient, if need be of zeros, and then
    momentum and weight decay act on it.

    An optimiser passes over a parameter without a gradient, so the gradients are removed. With --fp16 and --bf16 the
    optimiser may see all parameters as one flat tensor; then the frozen ones are restored after the step.
    """
    parameters = list(parameters)
    for parameter in parameters:
        parameter.grad = None
    masters = getattr(optimizer, "fp32_params", [])
    if isinstance(masters, dict):
        pieces = pieces_of_flat_tensor(optimizer, parameters)
    else:
        pieces, frozen = [], set(parameters)
        for half, master in zip(getattr(optimizer, "fp16_params", []), masters):
            if half in frozen:
                master.grad = None
    before = [piece.clone() for piece in pieces]
    yield
    for piece, value in zip(pieces, before):
        piece.copy_(value)


@contextmanager
def moved_for_step(optimizer, parameters: Iterable[Parameter]):
    """A step of fairseq's optimiser in this context takes the gradients of these parameters for zeros, so momentum and
    weight decay move them on. So it is in the code of the Skip Cross-Head paper: torch below 2.0 fills gradients with
    zeros between updates.

    With --fp16 and --bf16 fairseq has put zeros in place of gradients that are missing.
    """
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    yield


# --skipped-layers
STEPS = {"frozen": frozen_for_step, "moved": moved_for_step}


def pieces_of_flat_tensor(optimizer, parameters: list[Parameter]) -> list[Tensor]:
    """The parameters, and views of their places in the optimiser's flat float32 copy and in its state."""
    (flat,) = optimizer.fp32_params.values()
    masters = master_copies(optimizer)
    state = [
        value for value in optimizer.optimizer.state.get(flat, {}).values() if getattr(value, "shape", 0) == flat.shape
    ]
    pieces = []
    for parameter in parameters:
        begin = masters[parameter].storage_offset()
        pieces += [parameter.detach(), masters[parameter]]
        pieces += [value[begin : begin + parameter.numel()] for value in state]
    return pieces
