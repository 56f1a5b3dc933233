"""How operations of a GPU are captured, so that one launch computes all of them again."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar

import torch

ABANDONED: list[torch.cuda.CUDAGraph] = []  # whose captures have failed; torch still asks for them
T = TypeVar("T")


class Capture(Protocol):
    """Captures operations. On a GPU they are not computed meanwhile."""

    def __call__(self, function: Callable[[], T]) -> tuple[T, Callable[[], None]]:
        """The result of the function, in memory that remains, and a function that computes it (again)."""


class CudaCapture:
    """Captures the operations of a GPU. All its graphs have one pool of memory: no two of them may be in use.

    torch.cuda.graph collects garbage and empties the cache of memory at each capture. That costs more than a step of
    decoding, so it is left out here.
    """

    def __init__(self, device: torch.device):
        self.pool, self.stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):  # libraries make their workspaces of a stream at its first product
            torch.ones(1, 1, device=device).mm(torch.ones(1, 1, device=device))

    def __call__(self, function):
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self.stream.device)
        with torch.cuda.stream(self.stream), no_garbage_collection():
            try:
                # "thread_local": threads of torch.distributed ask the GPU for their own events meanwhile
                graph.capture_begin(self.pool, capture_error_mode="thread_local")
                result = function()
                graph.capture_end()
            except BaseException:
                self.abandon(graph)
                raise
        return result, graph.replay

    def abandon(self, graph: torch.cuda.CUDAGraph) -> None:
        """After a capture that has failed. Else torch would believe that it goes on: it would take memory from the pool
        and draw no random numbers.

        The allocator of pinned memory of the host believes so in any case: it refuses the pool to another capture, and
        may ask the graph for its number as long as there is a capture anywhere.
        """
        device = self.stream.device.index
        with suppress(RuntimeError):  # it raises the first failure again
            graph.capture_end()
        with suppress(RuntimeError):  # where the line before got so far, the pool is closed already
            torch._C._cuda_endAllocateToPool(device, self.pool)
        generator = torch.cuda.default_generators[device]
        generator.graphsafe_set_state(generator.clone_state())
        ABANDONED.append(graph)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Garbage may be a graph, which cannot be freed while another is captured."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def capture_for(device: torch.device) -> Capture | None:
    """The capture of operations on this device, or None."""
    return CudaCapture(device) if device.type == "cuda" else None


def within_a_capture(device: torch.device) -> bool:
    """Is a graph of the user's own being captured? It can take in operations, but no graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def release_memory(device: torch.device) -> None:
    """Give back the memory of the first block. A graph has memory of its own and cannot take it."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
