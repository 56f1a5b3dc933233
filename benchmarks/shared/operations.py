"""The operations of a piece of a model on the device, and the places where the host waits for it."""

from collections import Counter

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Operations whose result the host must know before it can go on. On a GPU it waits until all work is done.
WAITING = {
    f"aten::{name}"
    for name in (
        "_local_scalar_dense nonzero equal masked_select is_nonzero allclose repeat_interleave bincount"
        " unique_dim unique_consecutive _unique _unique2"
    ).split()
}
READING = {Tensor.tolist, Tensor.numpy, Tensor.cpu, Tensor.__array__}  # these do not pass a CPU's dispatcher
# They make a tensor of numbers of the host: a copy to the device, if the tensor is to be there.
FROM_HOST = {torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy, Tensor.new_tensor}
RANDOM = {torch.rand, torch.randn, torch.randint, torch.randperm}
# What only makes a tensor that nothing is written to yet, or a tensor for memory that is there already.
FREE = {f"aten::{name}" for name in ("empty", "new_empty", "empty_like", "empty_strided", "detach", "_unsafe_view")}
LISTS = list | np.ndarray


def boolean_index(name: str, args) -> bool:
    if not name.startswith("aten::index") or len(args) < 2 or not isinstance(args[1], list | tuple):
        return False
    return any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1])


def tensors_in(*values) -> list[Tensor]:
    return [x for x in tree_leaves(values) if isinstance(x, Tensor)]


class WithFunctions(TorchDispatchMode):
    """A mode of the dispatcher together with one of functions, for what does not pass the dispatcher."""

    def __init__(self, functions: TorchFunctionMode):
        super().__init__()
        self.functions = functions

    def __enter__(self):
        self.functions.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.functions.__exit__(*error)


class Waits(WithFunctions):
    """Within `with Waits() as waits:`, `waits.seen` lists where the host would wait for a device.

    On a CPU all tensors are on the host. Some are there in any case: a shape that fairseq makes a tensor of, a random
    number for which no device is named, and all that is computed from these alone. These are known by their origin.
    """

    def __init__(self):
        super().__init__(Functions(self))
        self.seen: list[str] = []
        self.on_host: dict[int, Tensor] = {}  # by identity; the tensors are kept, so that no other takes their place

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation._schema.name
        inputs = tensors_in(args, kwargs)
        host = bool(inputs) and all(id(x) in self.on_host for x in inputs)
        if (name in WAITING or boolean_index(name, args)) and not host:
            self.seen.append(name)
        result = operation(*args, **(kwargs or {}))
        for x in tensors_in(result):
            if host:
                self.on_host[id(x)] = x
            elif inputs:
                self.on_host.pop(id(x), None)  # it was changed by a tensor of the device
        return result


class Functions(TorchFunctionMode):
    """The part of Waits that sees functions and methods, of which the dispatcher of a CPU knows too little."""

    def __init__(self, waits: Waits):
        super().__init__()
        self.waits = waits

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # by its name only: torch.device("cpu") is where the models of these tests are
        to_host = function is Tensor.to and any(each == "cpu" for each in (*args[1:], *kwargs.values()))
        if function in READING or to_host:
            self.waits.seen.append(function.__name__)
        result = function(*args, **kwargs)
        if function is torch._shape_as_tensor or function in RANDOM and kwargs.get("device") is None:
            self.waits.on_host[id(result)] = result
        elif function in (Tensor.to, Tensor.type_as) and any(
            isinstance(x, Tensor | str | torch.device) for x in (*args[1:], *kwargs.values())
        ):
            result = result.view_as(result)  # a tensor of its own, which may be on the device
            self.waits.on_host.pop(id(result), None)
        return result


class Answers(TorchFunctionMode):
    """The numbers that the host reads of tensors, so that a model which needs them can run on empty meta tensors.

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


class OneDevice(WithFunctions):
    """Within it, an operation on tensors of two devices is an error, and so are tensors made of numbers of the host. On
    meta tensors this finds what would be copied from the host."""

    def __init__(self):
        super().__init__(NothingFromHost())

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        devices = {x.device.type for x in tensors_in(args, kwargs, result)}
        assert len(devices) < 2, f"{operation._schema.name} copies a tensor from the host"
        return result


class NothingFromHost(TorchFunctionMode):
    """The part of OneDevice that sees functions, since the copies within them do not pass the dispatcher."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        index = args[1] if function in (Tensor.__getitem__, Tensor.__setitem__) else ()
        lists = any(isinstance(x, LISTS) for x in (index if isinstance(index, tuple) else [index]))
        assert function not in FROM_HOST and not lists, f"{function.__name__} copies numbers from the host"
        return function(*args, **(kwargs or {}))


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
