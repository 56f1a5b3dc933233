"""What a piece of a model asks of the device: how many operations, and where the host waits for it."""

from collections import Counter

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Operations whose result the host must know before it can go on. On a GPU it waits until all work is done.
WAITING = {f"aten::{name}" for name in ("_local_scalar_dense", "nonzero", "equal", "masked_select", "is_nonzero")}
READING = {Tensor.tolist, Tensor.numpy, Tensor.cpu}  # these do not pass through the dispatcher on a CPU
# What only makes a tensor that nothing is written to yet, or a tensor for memory that is there already.
FREE = {f"aten::{name}" for name in ("empty", "new_empty", "empty_like", "empty_strided", "detach", "_unsafe_view")}


def boolean_index(name: str, args) -> bool:
    if not name.startswith("aten::index") or len(args) < 2 or not isinstance(args[1], list | tuple):
        return False
    return any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1])


class Waits(TorchDispatchMode):
    """Within `with Waits() as waits:`, `waits.seen` lists where the host would wait for a device.

    A shape that fairseq makes a tensor of, and what is computed from shapes alone, is on the host in any case.
    """

    def __init__(self):
        super().__init__()
        self.seen: list[str] = []
        self.on_host: dict[int, Tensor] = {}  # by identity; the tensors are kept, so that no other takes their place
        self.readings = Readings(self)

    def __enter__(self):
        self.readings.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.readings.__exit__(*error)

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation._schema.name
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        host = bool(tensors) and all(id(x) in self.on_host for x in tensors)
        if not host and (name in WAITING or boolean_index(name, args)):
            self.seen.append(name)
        result = operation(*args, **(kwargs or {}))
        if host and isinstance(result, Tensor):
            self.on_host[id(result)] = result
        return result


class Readings(TorchFunctionMode):
    """The part of Waits that sees methods of tensors."""

    def __init__(self, waits: Waits):
        super().__init__()
        self.waits = waits

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in READING:
            self.waits.seen.append(function.__name__)
        result = function(*args, **(kwargs or {}))
        if function is torch._shape_as_tensor:
            self.waits.on_host[id(result)] = result
        return result


class Answers(TorchFunctionMode):
    """What the host reads of tensors, so that a model which decides on it can run on meta tensors, which hold nothing.

    Under `with answers:` a run on the CPU is written down; the next one, on meta tensors, is told the same.
    """

    def __init__(self):
        super().__init__()
        self.given: list = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is not Tensor.tolist:
            return function(*args, **(kwargs or {}))
        if args[0].is_meta:
            return self.given.pop(0)
        self.given.append(args[0].tolist())
        return self.given[-1]


class OneDevice(TorchDispatchMode):
    """Within it, an operation on tensors of two devices is an error. On meta tensors this finds tensors that are made
    on the host."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        tensors = (x for x in tree_leaves((args, kwargs, result)) if isinstance(x, Tensor))
        devices = {x.device.type for x in tensors}
        assert len(devices) < 2, f"{operation._schema.name} copies a tensor from the host"
        return result


class Operations(TorchDispatchMode):
    """Within `with Operations() as operations:`, `operations.number` counts those that do work, by their names. Views
    do none."""

    def __init__(self):
        super().__init__()
        self.number: Counter[str] = Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        schema = operation._schema
        view = any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)
        if not view and schema.name not in FREE:
            self.number[schema.name] += 1
        return operation(*args, **(kwargs or {}))
