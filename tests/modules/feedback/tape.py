"""A CUDA graph's stand-in on a CPU: operations are recorded with their tensors, and replayed on the same memory.

As in a graph, all that Python computes while recording is constant afterwards, and nothing may wait for the device.
The results of a recording are made NaN, since a graph that has been captured has computed nothing.

All recordings have one pool of memory, as graphs have: a new recording may be given memory that nobody holds any more.
So a replay makes NaN all that it would overwrite in another recording.
"""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

ALLOCATIONS = {"aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty_strided"}
WAITS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::masked_select"}


def tensors(x):
    """The tensors in tuples, lists and dictionaries."""
    return [leaf for leaf in tree_leaves(x) if isinstance(leaf, torch.Tensor)]


def place(x):
    """Where the memory of x begins."""
    return x.untyped_storage().data_ptr()


def make_nan(storages):
    for x in storages:
        if x.is_floating_point():
            torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).fill_(float("nan"))


class Tape(TorchDispatchMode):
    """Records the operations within the context.

    Attributes:
        made: an alias of each tensor that has memory of its own, by its place
        held: by place, those through whom the recording's function may hold that memory
        overwrites: memory of other tapes that a replay overwrites
    """

    def __init__(self):
        super().__init__()
        self.operations, self.made, self.held, self.overwrites = [], {}, {}, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name
        if name in WAITS:
            raise RuntimeError(f"{name} makes the host wait, which a graph cannot do")
        before = {place(x) for x in tensors((args, kwargs))}
        output = function(*args, **kwargs)
        own = {place(x) for x in tensors(output)} - before
        aliases = tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs, output))
        for x, alias in zip(tensors(output), tensors(aliases[2])):
            if place(x) in own:
                self.made[place(x)] = alias
            if place(x) in self.made:
                self.held.setdefault(place(x), []).append(weakref.ref(x))
        views = any(x.alias_info is not None and not x.alias_info.is_write for x in function._schema.returns)
        if name not in ALLOCATIONS and not views:
            self.operations.append((function, *aliases))
        return output

    def released(self):
        """The tensors that nobody holds any more."""
        return [x for at, x in self.made.items() if not any(holder() is not None for holder in self.held[at])]

    def replay(self):
        make_nan(self.overwrites)
        for function, args, kwargs, output in self.operations:
            again = function(*args, **kwargs)
            if not any(x.alias_info for x in function._schema.returns):  # else it was written in place
                for x, y in zip(tensors(output), tensors(again)):
                    x.copy_(y)


class TapeCapture:
    """Takes the place of CudaCapture. `captured` counts the captures."""

    def __init__(self, device=None):
        self.captured = 0
        self.tapes = weakref.WeakSet()

    def __call__(self, function):
        self.captured += 1
        state = torch.get_rng_state()
        free = [(tape, tape.released()) for tape in self.tapes]
        with torch.no_grad(), Tape() as tape:
            result = function()
        torch.set_rng_state(state)
        make_nan(tape.made.values())
        for other, released in free:
            tape.overwrites += released
            if released:
                other.overwrites += tape.made.values()
        self.tapes.add(tape)

        def replay():
            with torch.no_grad():
                tape.replay()

        return result, replay
