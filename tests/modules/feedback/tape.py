"""A CUDA graph's stand-in on a CPU: operations are recorded with their tensors, and replayed on the same memory.

As in a graph, all that Python computes while recording is constant afterwards, and nothing may wait for the device.
What a recording computes is made NaN, since a graph that has been captured has computed nothing.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ALLOCATIONS = {"aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty_strided"}
WAITS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::masked_select"}


class Tape(TorchDispatchMode):
    """What is computed within the context."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name
        if name in WAITS:
            raise RuntimeError(f"{name} makes the host wait, which a graph cannot do")
        output = function(*args, **kwargs)
        views = any(x.alias_info is not None and not x.alias_info.is_write for x in function._schema.returns)
        if name not in ALLOCATIONS and not views:
            self.operations.append((function, args, kwargs, output))
        return output

    def replay(self):
        for function, args, kwargs, output in self.operations:
            again = function(*args, **kwargs)
            if not any(x.alias_info for x in function._schema.returns):  # else it was written in place
                for x, y in zip(tensors(output), tensors(again)):
                    x.copy_(y)


def tensors(x):
    """The tensors in tuples, lists and dictionaries."""
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = x.values()
    return [tensor for part in x for tensor in tensors(part)] if isinstance(x, tuple | list | type({}.values())) else []


class TapeCapture:
    """Stands for CudaCapture. `captured` counts what has been captured."""

    def __init__(self, device=None):
        self.captured = 0

    def __call__(self, function):
        self.captured += 1
        state = torch.get_rng_state()
        with torch.no_grad(), Tape() as tape:
            result = function()
        torch.set_rng_state(state)
        for *_, output in tape.operations:
            for x in tensors(output):
                if x.is_floating_point():
                    x.fill_(float("nan"))

        def replay():
            with torch.no_grad():
                tape.replay()

        return result, replay
