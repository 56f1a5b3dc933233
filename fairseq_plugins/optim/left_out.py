"""Updates that leave some parameters alone."""

from collections.abc import Iterable
from contextlib import contextmanager

from torch import Tensor
from torch.nn import Parameter

from fairseq_plugins.optim.half_precision import master_copies


@contextmanager
def left_out(optimizer, parameters: Iterable[Parameter]):
    """A step of fairseq's optimizer in this context changes neither these parameters nor what it keeps of them.

    Data-parallel training gives every parameter a gradient, of zeros if need be, and momentum and weight decay would
    act on it. So it is in the code of the Skip Cross-Head paper, where zeros in the place of gradients (torch below 2.0)
    have Adam's momentum move a skipped layer on; the paper says that a skipped layer is left out, and here it rests.
    Optimisers pass over parameters without a gradient, so these lose theirs. With --fp16 and --bf16 all
    parameters may be one tensor to the optimiser: there what it has changed of them is put back.
    """
    parameters = list(parameters)
    for parameter in parameters:
        parameter.grad = None
    masters = getattr(optimizer, "fp32_params", [])
    if isinstance(masters, dict):
        pieces = kept_in_one_tensor(optimizer, parameters)
    else:
        pieces, resting = [], set(parameters)
        for half, master in zip(getattr(optimizer, "fp16_params", []), masters):
            if half in resting:
                master.grad = None
    before = [piece.clone() for piece in pieces]
    yield
    for piece, value in zip(pieces, before):
        piece.copy_(value)


def kept_in_one_tensor(optimizer, parameters: list[Parameter]) -> list[Tensor]:
    """The parameters, and views of their places in the optimiser's copy of all and in its state."""
    (flat,) = optimizer.fp32_params.values()
    masters = master_copies(optimizer)
    state = [
        kept for kept in optimizer.optimizer.state.get(flat, {}).values() if getattr(kept, "shape", 0) == flat.shape
    ]
    pieces = []
    for parameter in parameters:
        begin = masters[parameter].storage_offset()
        pieces += [parameter.detach(), masters[parameter]]
        pieces += [kept[begin : begin + parameter.numel()] for kept in state]
    return pieces
