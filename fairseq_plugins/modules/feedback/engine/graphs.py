"""CUDA graphs of the engine: operations that are captured once and then launched as one.

The operations of a time step are short, so a GPU waits for the host that launches them one by one. `Graphs` decides
which blocks and steps are captured, and keeps their graphs; `block_graph` and `decoding_graphs` make them. Python runs
only while a graph is captured. So all its decisions are constant afterwards, and the graph's key contains them.

T steps, B batch, C width.
"""

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import Tensor

from fairseq_plugins.modules.feedback.engine.block_graph import CapturedLoop, LoopGraph
from fairseq_plugins.modules.feedback.engine.cuda_capture import Capture, capture_for, within_a_capture
from fairseq_plugins.modules.feedback.engine.decoding_graphs import CapturedDecoding, DecodingGraphs
from fairseq_plugins.modules.feedback.engine.loop import STREAM_CAPACITY
from fairseq_plugins.modules.feedback.engine.state import RecurrenceState

logger = logging.getLogger(__name__)
MOST_GRAPHS = 8  # of a stack; each has the memory of a whole block
MOST_KEYS = 4096  # keys without a graph that are remembered
MANY_USES = 16  # after which a graph has paid for its capture
MOST_STEPS = 128  # of decoding without a window; later steps are launched one by one
GraphT = TypeVar("GraphT")


def shapes(tensors: list[Tensor]) -> Hashable:
    return tuple((x.shape, x.stride(), x.dtype, x.device, x.requires_grad) for x in tensors)


def constants(state: RecurrenceState) -> Hashable:
    """All of a state, besides its shapes, that is constant in a graph."""
    parameters = tuple((x.data_ptr(), x.requires_grad) for x in state.layers.parameters())
    modes = tuple(layer.training for layer in state.layers), torch.is_inference_mode_enabled()
    return type(state), tuple(vars(state.layers[0].config).values()), state.dtype, parameters, modes


class Graphs:
    """The graphs of a stack.

    A graph is captured when its key is used the second time: shapes that are used once cost nothing, and all libraries
    are loaded by then. When there are too many graphs, the least recently used one is dropped. Its key then has to be
    used twice before it gets a graph again, the next time four times, and so on, unless the graph was used often. So
    captures get rare where more shapes than graphs take turns.

    Attributes:
        kept: a LoopGraph or DecodingGraphs for each key, the least recently used first
        uses: how often each graph that is kept was used again
        seen: for keys without a graph, the uses left before a capture, and the number from which they are counted down
        refusal: why no more graphs are made; empty if they are
        captures: for each device; None: it cannot capture
        in_use: the latest block whose activations lie in a graph's memory
    """

    def __init__(self) -> None:
        self.kept: OrderedDict[Hashable, Any] = OrderedDict()
        self.uses: dict[Hashable, int] = {}
        self.seen: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        self.said: set[str] = set()
        self.refusal = ""
        self.captures: dict[torch.device, Capture | None] = {}
        self.in_use: Callable[[], CapturedLoop | None] = lambda: None

    def __reduce__(self):  # a copy of the model, as for a moving average, has other memory: it makes its own graphs
        return Graphs, ()

    def loop(self, state: RecurrenceState, x: Tensor, padding: Tensor | None, record: bool) -> "CapturedLoop | None":
        """A block of x [T, B, C] as a graph; None: its operations are launched one by one. padding and record are as of
        `Loop`."""
        capture = self.capture_now(x.device)
        if len(x) == 1 or capture is None:
            return None
        inputs = [*state.own_tensors(), x] + ([] if padding is None else [padding])
        key = record, padding is None, shapes(inputs), constants(state)
        graph = self.get(key, lambda: LoopGraph(state, x, padding, record, capture), f"a block of {len(x)} steps")
        if graph is None:
            return None
        loop = CapturedLoop(graph, state, inputs)
        if record:
            self.in_use = weakref.ref(loop)
        return loop

    def decoding(self, state: RecurrenceState, x: Tensor) -> "CapturedDecoding | None":
        """Steps of decoding as graphs, for embeddings like x [B, C]; or None, as of `loop`."""
        capture = self.capture_now(x.device)
        if capture is None or any(layer.training for layer in state.layers):  # dropout draws for many steps at once
            return None
        inputs = state.own_tensors()
        key = x.shape, x.dtype, state.beam, shapes(inputs), constants(state)
        known_shapes = state.limits is None
        if not known_shapes:  # steps of the same shapes come again and again in one stream
            self.seen.setdefault(key, (0, 1))
        capacity = MOST_STEPS if known_shapes else STREAM_CAPACITY
        what = f"a step of decoding {len(x)} sequences"
        graphs = self.get(key, lambda: DecodingGraphs(state, x, capacity, capture, known_shapes), what)
        if graphs is None or graphs.user() is not None:
            return None
        try:
            steps = CapturedDecoding(self, graphs, inputs)
        except Exception as error:
            self.refuse(what, error)
            return None
        graphs.user = weakref.ref(steps)
        return steps

    def capture_now(self, device: torch.device) -> Capture | None:
        """The capture of operations on this device. None if it cannot capture, and while a block waits for its backward
        pass: all graphs share one pool of memory, so another one would overwrite the activations of that block."""
        if within_a_capture(device):
            return None
        if device not in self.captures:
            self.captures[device] = capture_for(device)
        loop = self.in_use()
        if loop is not None and loop.waits:
            self.say_once("Operations are launched one by one while a block waits for its backward pass")
            return None
        return self.captures[device]

    def say_once(self, sentence: str) -> None:
        if sentence not in self.said:
            self.said.add(sentence)
            logger.info(sentence)

    def refuse(self, what: str, error: Exception) -> None:
        """Drop all graphs, make no more, and log why."""
        self.captures = dict.fromkeys(self.captures)
        self.kept.clear()
        self.uses.clear()
        self.refusal = f"{what} cannot be a CUDA graph, so steps are launched one by one: {error}"
        logger.warning(self.refusal)

    def get(self, key: Hashable, make: Callable[[], GraphT], what: str) -> GraphT | None:
        """The graph with this key, captured if it is due; None: not yet."""
        if key in self.kept:
            self.kept.move_to_end(key)
            self.uses[key] += 1
            return self.kept[key]
        if not self.is_due(key):
            return None
        if len(self.kept) == MOST_GRAPHS:
            self.drop()
            self.say_once("There are more shapes than graphs that are kept: --num-batch-buckets makes fewer shapes")
        try:
            self.kept[key], self.uses[key] = make(), 0
        except Exception as error:  # also out of memory, and errors of a kernel's compiler
            self.refuse(what, error)
            return None
        logger.info("%s is a CUDA graph from now on (%d of at most %d)", what, len(self.kept), MOST_GRAPHS)
        return self.kept[key]

    def drop(self) -> None:
        """Drop the least recently used graph."""
        key, _ = self.kept.popitem(last=False)
        if self.uses.pop(key) >= MANY_USES:
            self.seen[key] = (1, 1)

    def is_due(self, key: Hashable) -> bool:
        """Whether this key, which has no graph, has been used often enough to get one."""
        left, asked = self.seen.pop(key, (1, 1))
        self.seen[key] = (left - 1, asked) if left else (2 * asked, 2 * asked)
        while len(self.seen) > MOST_KEYS:
            self.seen.popitem(last=False)
        return not left
