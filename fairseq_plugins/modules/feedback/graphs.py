"""Blocks of the fast engine as CUDA graphs: their operations are captured once and from then on launched as one.

The operations of a time step are short, so a GPU waits for the host that launches them one by one. A graph repeats
them on the same memory: what a block reads is copied into it first, and what it gives is copied out. All else that
Python decides while a graph is captured is constant afterwards, so it is part of the graph's key.

T steps, B batch, C width, G memories a step.
"""

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from fairseq_plugins.modules.feedback.fast import Block, FastRecurrence

logger = logging.getLogger(__name__)
MOST_GRAPHS = 8  # of a stack; a graph keeps what a block keeps in memory
MOST_KEYS = 4096  # of shapes that have come once
T = TypeVar("T")


class Capture(Protocol):
    """Captures operations. On a GPU they are not computed meanwhile."""

    def __call__(self, function: Callable[[], T]) -> tuple[T, Callable[[], None]]:
        """What the function returns, in memory that remains, and what computes it (again)."""


class CudaCapture:
    """Captures the operations of a GPU. All its graphs have one pool of memory: no two of them may be in use."""

    def __init__(self, device: torch.device):
        self.pool, self.stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):  # libraries make their workspaces of a stream at its first product
            torch.ones(1, 1, device=device).mm(torch.ones(1, 1, device=device))

    def __call__(self, function):
        graph = torch.cuda.CUDAGraph()
        # "thread_local": threads of torch.distributed ask the GPU for their own events meanwhile
        with torch.cuda.graph(graph, self.pool, self.stream, capture_error_mode="thread_local"):
            result = function()
        return result, graph.replay


def capture_for(device: torch.device) -> Capture | None:
    """What captures operations on this device, or None."""
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return None
    return CudaCapture(device)


class Inputs:
    """Copies of tensors, which a graph reads."""

    def __init__(self) -> None:
        self.copies: list[Tensor] = []

    def copy(self, x: Tensor) -> Tensor:
        """A copy of x that is differentiated where x is."""
        self.copies.append(x.detach().clone().requires_grad_(x.requires_grad))
        return self.copies[-1]

    def load(self, tensors: list[Tensor]) -> None:
        """Write what the copies are to hold from now on."""
        with torch.no_grad():
            for copy, tensor in zip(self.copies, tensors, strict=True):
                copy.copy_(tensor)


def tensors_of(state: FastRecurrence) -> list[Tensor]:
    """All tensors that a block of this state reads, but for the model's parameters."""
    found: list[Tensor] = []

    def see(x: Tensor) -> Tensor:
        found.append(x)
        return x

    state.mapped(see)
    return found


def shapes(tensors: list[Tensor]) -> Hashable:
    return tuple((x.shape, x.stride(), x.dtype, x.requires_grad) for x in tensors)


class Graphs:
    """The graphs of a stack. A block gets one when its key comes the second time; the least recently used is dropped."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Hashable, BlockGraph] = OrderedDict()
        self.seen: OrderedDict[Hashable, None] = OrderedDict()
        self.captures: dict[torch.device, Capture | None] = {}
        self.in_use: Callable[[], CapturedBlock | None] = lambda: None

    def __reduce__(self):  # a copy of the model, as for a moving average, has other memory: it makes its own graphs
        return Graphs, ()

    def block(self, state: FastRecurrence, x: Tensor, padding: Tensor | None, record: bool) -> "CapturedBlock | None":
        """A block of x [T, B, C] as a graph, or None: to be computed operation by operation. padding and record are as
        of `Block`."""
        capture = self.capture(x.device)
        if capture is None or len(x) == 1 or self.is_in_use():
            return None
        inputs = [*tensors_of(state), x] + ([] if padding is None else [padding])
        parameters = tuple((p.data_ptr(), p.requires_grad) for p in state.layers.parameters())
        modes = tuple(layer.training for layer in state.layers)
        key = record, padding is None, modes, state.dtype, x.device, shapes(inputs), parameters
        graph = self.get(key, lambda: BlockGraph(state, x, padding, record, capture), f"a block of {len(x)} steps")
        if graph is None:
            return None
        block = CapturedBlock(graph, state, inputs)
        if record:
            self.in_use = weakref.ref(block)
        return block

    def capture(self, device: torch.device) -> Capture | None:
        if device not in self.captures:
            self.captures[device] = capture_for(device)
        return self.captures[device]

    def is_in_use(self) -> bool:
        """Does a block wait for its backward pass? All graphs have the same memory, so another would overwrite what it
        has saved."""
        block = self.in_use()
        return block is not None and block.waits

    def get(self, key: Hashable, make: Callable[[], "BlockGraph"], what: str) -> "BlockGraph | None":
        """The graph with this key. If there is none, it is made, but not at the first time: then shapes that never come
        again cost nothing, and all libraries are loaded."""
        if key in self.kept:
            self.kept.move_to_end(key)
            return self.kept[key]
        if key not in self.seen:
            self.seen[key] = None
            if len(self.seen) > MOST_KEYS:
                self.seen.popitem(last=False)
            return None
        if len(self.kept) == MOST_GRAPHS:
            self.kept.popitem(last=False)
        try:
            self.kept[key] = make()
        except RuntimeError as error:  # also: out of memory
            self.captures = dict.fromkeys(self.captures)
            self.kept.clear()
            logger.warning("%s cannot be a CUDA graph, so steps are launched one by one: %s", what, error)
            return None
        logger.info("%s is a CUDA graph from now on (%d of at most %d)", what, len(self.kept), MOST_GRAPHS)
        return self.kept[key]


class BlockGraph:
    """A block, forward and backward, as two graphs. The arguments are as of `Graphs.block`.

    Attributes:
        inputs: what the block reads: the tensors of the state, x, and padding if there is any
        y: outputs [T, B, C]
        memories: of all steps, G tensors [B, T, C]
        d_top: the gradient of y, to be written before `replay_backward`
        dx: the gradient of x
        gradients: of state.tensors(); None where there is none
    """

    def __init__(self, state: FastRecurrence, x: Tensor, padding: Tensor | None, record: bool, capture: Capture):
        self.inputs = Inputs()
        twin = state.mapped(self.inputs.copy)
        x = self.inputs.copy(x).detach()
        padding = None if padding is None else self.inputs.copy(padding)

        def forward():
            block = Block(twin, x[0], len(x), padding, record)
            y = block.forward(x)
            return block, y, [torch.stack(steps, dim=1) for steps in zip(*block.memories)]

        with torch.no_grad():
            (block, self.y, self.memories), self.replay_forward = capture(forward)
            if record:
                self.d_top = torch.empty_like(self.y)
                (self.dx, gradients), self.replay_backward = capture(lambda: block.backward(self.d_top))
                self.gradients = [gradients.get(id(tensor)) for tensor in twin.tensors()]


class CapturedBlock:
    """One use of the graph of a block. It has what `FastRecurrence.run` needs of a `Block`.

    Args:
        graph: of such blocks
        state: what the block belongs to
        inputs: what `graph.inputs` are to hold
    """

    def __init__(self, graph: BlockGraph, state: FastRecurrence, inputs: list[Tensor]):
        self.graph, self.inputs, self.tensors = graph, inputs, state.tensors()
        self.memories: list[tuple[Tensor, ...]] = []
        self.waits = False  # for the backward pass

    def forward(self, x: Tensor) -> Tensor:
        """As of `Block`. All that is returned is a copy, as the next use of the graph overwrites its memory."""
        self.graph.inputs.load(self.inputs)
        self.inputs = []
        self.graph.replay_forward()
        self.waits = True
        self.memories = list(zip(*(memories.clone().unbind(1) for memories in self.graph.memories)))
        return self.graph.y.clone()

    def backward(self, d_top: Tensor) -> tuple[Tensor, dict[int, Tensor]]:
        """As of `Block`."""
        self.graph.d_top.copy_(d_top)
        self.graph.replay_backward()
        self.waits = False
        pairs = zip(self.tensors, self.graph.gradients)
        return self.graph.dx.clone(), {id(x): gradient.clone() for x, gradient in pairs if gradient is not None}
