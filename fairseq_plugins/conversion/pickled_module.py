"""A whole module of torch that was pickled, where a state dict is usual. It is read through stand-ins."""

from typing import Any

from torch import Tensor

from fairseq_plugins.conversion.reading import StandIn
from fairseq_plugins.errors import UserError

# torch's own that such a file may hold. The last was part of every module until torch 1.2
TORCH_TYPES = (
    "torch.nn.modules.activation.ReLU",
    "torch.nn.modules.container.ModuleList",
    "torch.nn.modules.container.ParameterList",
    "torch.nn.modules.container.Sequential",
    "torch.nn.modules.dropout.Dropout",
    "torch.nn.modules.linear.Linear",
    "torch.nn.modules.normalization.LayerNorm",
    "torch.nn.modules.sparse.Embedding",
    "torch.nn.backends.thnn._get_thnn_function_backend",
)


def child(module: StandIn, *names: str) -> StandIn:
    """A module in a module, by the names on the way to it."""
    for name in names:
        module = vars(module)["_modules"][name]
    return module


def state_dict(module: StandIn, prefix: str = "") -> dict[str, Tensor]:
    """What its method of this name would give."""
    found = vars(module)
    own = {**found["_parameters"], **found["_buffers"]}
    state = {prefix + name: tensor for name, tensor in own.items() if tensor is not None}
    for name, part in found["_modules"].items():
        if part is not None:
            state |= state_dict(part, f"{prefix}{name}.")
    return state


def attribute(module: StandIn, name: str, kind: type) -> Any:
    """An attribute of this type.

    Raises:
        UserError: there is none
    """
    value = vars(module).get(name)
    if type(value) is not kind:
        raise UserError(
            f"the checkpoint's {type(module).__name__} has {name} {value!r}, not {kind.__name__}; check --from."
        )
    return value
