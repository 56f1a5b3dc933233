"""Loops and steps of the engine as CUDA graphs: operations that are captured once and then launched as one.

The operations of a time step are short, so a GPU waits for the host that launches them one by one. A graph repeats
them on the same memory: the inputs of a loop are copied into it first, and the results are copied out. All else that
Python decides while a graph is captured is constant afterwards, so it is part of the graph's key.

T steps, B batch, C width, G memories a step.
"""

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from fairseq_plugins.modules.feedback.engine.caches import Source, reorder_rows
from fairseq_plugins.modules.feedback.engine.cuda_capture import Capture, capture_for, release_memory, within_a_capture
from fairseq_plugins.modules.feedback.engine.loop import STREAM_CAPACITY, Loop
from fairseq_plugins.modules.feedback.engine.state import RecurrenceState

logger = logging.getLogger(__name__)
MOST_GRAPHS = 8  # of a stack; each has the memory of a whole block
MOST_KEYS = 4096  # that are remembered, with the uses left before a capture
MANY_USES = 16  # after which a graph has paid for its capture
MOST_STEPS = 128  # of decoding without a window; later steps are launched one by one
GraphT = TypeVar("GraphT")


class Inputs:
    """Copies of tensors, which a graph reads."""

    def __init__(self) -> None:
        self.copies: list[Tensor] = []

    def copy(self, x: Tensor) -> Tensor:
        """A copy of x that is differentiated where x is."""
        self.copies.append(x.detach().clone().requires_grad_(x.requires_grad))
        return self.copies[-1]

    def load(self, tensors: list[Tensor]) -> None:
        """Write new values into the copies."""
        with torch.no_grad():
            for copy, tensor in zip(self.copies, tensors, strict=True):
                copy.copy_(tensor)


def shapes(tensors: list[Tensor]) -> Hashable:
    return tuple((x.shape, x.stride(), x.dtype, x.device, x.requires_grad) for x in tensors)


def constants(state: RecurrenceState) -> Hashable:
    """All else that must be the same where a graph is used again."""
    parameters = tuple((x.data_ptr(), x.requires_grad) for x in state.layers.parameters())
    modes = tuple(layer.training for layer in state.layers), torch.is_inference_mode_enabled()
    return type(state), tuple(vars(state.layers[0].config).values()), state.dtype, parameters, modes


class Graphs:
    """The graphs of a stack. A graph is captured when its key is used the second time. The least recently used graph is
    dropped. Its key then has to be used twice before it gets a graph again, the next time four times, and so on, unless
    the graph was used often. So captures get rare where more shapes than graphs take turns."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Hashable, Any] = OrderedDict()  # LoopGraph or DecodingGraphs
        self.uses: dict[Hashable, int] = {}  # of those that are kept
        self.seen: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()  # uses left, uses asked for
        self.said: set[str] = set()
        self.refusal = ""  # why there are none any more
        self.captures: dict[torch.device, Capture | None] = {}
        self.in_use: Callable[[], CapturedLoop | None] = lambda: None

    def __reduce__(self):  # a copy of the model, as for a moving average, has other memory: it makes its own graphs
        return Graphs, ()

    def loop(self, state: RecurrenceState, x: Tensor, padding: Tensor | None, record: bool) -> "CapturedLoop | None":
        """A block of x [T, B, C] as a graph, or None: to be computed operation by operation. padding and record are as
        of `Loop`."""
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
        """The capture of operations on this device. None where there is none, and while a loop waits for its backward
        pass: all graphs have the same memory, so another would overwrite the activations of that loop."""
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
        """No more graphs, and say why."""
        self.captures = dict.fromkeys(self.captures)
        self.kept.clear()
        self.uses.clear()
        self.refusal = f"{what} cannot be a CUDA graph, so steps are launched one by one: {error}"
        logger.warning(self.refusal)

    def get(self, key: Hashable, make: Callable[[], GraphT], what: str) -> GraphT | None:
        """The graph with this key. If there is none, it is captured, but not at the first use: so shapes that are used
        once cost nothing, and all libraries are loaded by then."""
        if key in self.kept:
            self.kept.move_to_end(key)
            self.uses[key] += 1
            return self.kept[key]
        if not self.is_due(key):
            return None
        if len(self.kept) == MOST_GRAPHS:
            self.drop()
            self.say_once("More shapes take turns than graphs are kept: --num-batch-buckets makes fewer of them")
        try:
            self.kept[key], self.uses[key] = make(), 0
        except Exception as error:  # also out of memory, and errors of a kernel's compiler
            self.refuse(what, error)
            return None
        logger.info("%s is a CUDA graph from now on (%d of at most %d)", what, len(self.kept), MOST_GRAPHS)
        return self.kept[key]

    def drop(self) -> None:
        """Drop the graph that has not been used for the longest time."""
        key, _ = self.kept.popitem(last=False)
        if self.uses.pop(key) >= MANY_USES:
            self.seen[key] = (1, 1)

    def is_due(self, key: Hashable) -> bool:
        """Whether this key, which has no graph, has been used often enough to get one."""
        missing, asked = self.seen.pop(key, (1, 1))
        self.seen[key] = (missing - 1, asked) if missing else (2 * asked, 2 * asked)
        while len(self.seen) > MOST_KEYS:
            self.seen.popitem(last=False)
        return not missing


class LoopGraph:
    """A block, forward and backward, as two graphs. The arguments are as of `Graphs.loop`.

    Attributes:
        inputs: the tensors of the state, x, and padding if there is any
        y: outputs [T, B, C]
        memories: of all steps, G tensors [B, T, C]
        d_top: the gradient of y, to be written before `replay_backward`
        dx: the gradient of x
        gradients: of state.tensors(); None where there is none
    """

    def __init__(self, state: RecurrenceState, x: Tensor, padding: Tensor | None, record: bool, capture: Capture):
        self.inputs = Inputs()
        twin = state.mapped(self.inputs.copy)
        x = self.inputs.copy(x).detach()
        padding = None if padding is None else self.inputs.copy(padding)

        def forward():
            loop = Loop(twin, x[0], len(x), padding, record)
            y = loop.forward(x)
            return loop, y, [torch.stack(steps, dim=1) for steps in zip(*loop.memories)]

        release_memory(x.device)
        with torch.no_grad():
            (loop, self.y, self.memories), self.replay_forward = capture(forward)
            if record:
                self.d_top = torch.empty_like(self.y)
                (self.dx, gradients), self.replay_backward = capture(lambda: loop.backward(self.d_top))
                self.gradients = [gradients.get(id(tensor)) for tensor in twin.tensors()]


class CapturedLoop:
    """One use of a `LoopGraph`, with the methods of a `Loop` that `FastRecurrence.run` calls.

    Args:
        graph: of loops of these shapes
        state: the tensors that all steps read
        inputs: the values for `graph.inputs`
    """

    def __init__(self, graph: LoopGraph, state: RecurrenceState, inputs: list[Tensor]):
        self.graph, self.inputs, self.tensors = graph, inputs, state.tensors()
        self.memories: list[tuple[Tensor, ...]] = []
        self.waits = False  # for the backward pass

    def forward(self, x: Tensor) -> Tensor:
        """As of `Loop`. All that is returned is a copy, as the next use of the graph overwrites its memory."""
        self.graph.inputs.load(self.inputs)
        self.inputs = []
        self.graph.replay_forward()
        self.waits = True
        self.memories = list(zip(*(memories.clone().unbind(1) for memories in self.graph.memories)))
        return self.graph.y.clone()

    def backward(self, d_top: Tensor) -> tuple[Tensor, dict[int, Tensor]]:
        """As of `Loop`."""
        self.graph.d_top.copy_(d_top)
        self.graph.replay_backward()
        self.waits = False
        pairs = zip(self.tensors, self.graph.gradients)
        return self.graph.dx.clone(), {id(x): gradient.clone() for x, gradient in pairs if gradient is not None}


class DecodingGraphs:
    """Decoding step by step, as one graph for each number of steps that the buffers can hold.

    Args:
        state: of the sequences that are decoded; others of the same shapes take their turn
        x: embeddings are like it [B, C]
        capacity: room for so many steps
        capture: captures operations
        warm: steps of these shapes have been computed before; otherwise each is computed once before it is captured

    Attributes:
        x: to be written before a step
        loop: computes steps one by one, too
    """

    def __init__(self, state: RecurrenceState, x: Tensor, capacity: int, capture: Capture, warm: bool):
        self.inputs, self.capture, self.capacity, self.warm = Inputs(), capture, capacity, warm
        self.twin, self.x = state.mapped(self.inputs.copy), x.clone()
        self.computed = set(range(capacity + 1)) if warm else set()
        self.loop: Loop
        self.fill: Callable[[], None] | None = None  # makes the loop again
        self.attributes: list[tuple[object, dict]] = []  # of the parts of the loop when it begins
        self.steps: dict[int, tuple[tuple[Tensor, Tensor | None], Callable[[], None], int]] = {}
        self.user: Callable[[], CapturedDecoding | None] = lambda: None

    def begin(self, tensors: list[Tensor]) -> None:
        """Begin new sequences, whose state holds these tensors."""
        self.inputs.load(tensors)
        if not self.warm:
            self.loop, self.warm = self.new_loop(), True
            return
        if self.fill is None:
            self.loop, self.fill = self.capture(self.new_loop)
            loop = self.loop
            parts = [*loop.memory_sources(), *loop.contexts, *loop.context_attentions, loop]
            self.attributes = [(part, dict(vars(part))) for part in parts]
            self.steps.clear()  # they were of another loop
        for part, attributes in self.attributes:
            vars(part).update(attributes)
        self.fill()

    def new_loop(self) -> Loop:
        return Loop(self.twin, self.x, self.capacity)

    @property
    def place(self) -> int:
        """How many steps the buffers hold."""
        return self.loop.memory_sources()[0].steps

    def move(self, place: int) -> None:
        for source in self.loop.memory_sources():
            source.steps = place

    @property
    def has_room(self) -> bool:
        """Can the next step be a graph? Otherwise it makes larger buffers."""
        return self.place < self.capacity or self.twin.limits is not None

    def one_by_one(self) -> tuple[Tensor, Tensor | None]:
        """The result of `FastRecurrence.step` for the embeddings in `x`."""
        return self.loop.step(self.x), self.loop.context_weights()

    def step(self) -> tuple[Tensor, Tensor | None]:
        """The same by a graph, if there can be one yet. The next step overwrites it."""
        place = self.place
        if place not in self.computed:
            self.computed.add(place)
            return self.one_by_one()
        if place not in self.steps:
            try:
                self.steps[place] = *self.capture(self.one_by_one), self.place
            finally:
                self.move(place)
        outputs, replay, after = self.steps[place]
        replay()
        self.move(after)
        return outputs


class CapturedDecoding:
    """One use of `DecodingGraphs`, with the methods of a `Loop` that decoding calls.

    Rows of the batch that are no longer asked for are computed on, so that the shapes remain.

    Args:
        graphs: of the stack
        steps: of sequences of these shapes
        tensors: of the state that the sequences belong to
    """

    def __init__(self, graphs: Graphs, steps: DecodingGraphs, tensors: list[Tensor]):
        self.graphs, self.steps, self.rows = graphs, steps, len(steps.x)
        self.apart = False  # a row has left its sentence: the loop goes on without graphs
        self.weights: Tensor | None = None
        steps.begin(tensors)

    def step(self, x: Tensor) -> Tensor:
        """As of `Loop`."""
        if self.apart:
            self.weights = None
            return self.steps.loop.step(x)
        self.steps.x[: self.rows].copy_(x)
        y, weights = self.outputs()
        self.weights = None if weights is None else weights[: self.rows].clone()
        return y[: self.rows].clone()

    def outputs(self) -> tuple[Tensor, Tensor | None]:
        if self.steps.has_room and self.graphs.capture_now(self.steps.x.device):
            try:
                return self.steps.step()
            except Exception as error:
                self.graphs.refuse("a step of decoding", error)
        return self.steps.one_by_one()

    def context_weights(self) -> Tensor | None:
        """As of `Loop`."""
        return self.steps.loop.context_weights() if self.apart else self.weights

    def reorder(self, order: Tensor) -> None:
        """As of `Loop`."""
        loop, rows = self.steps.loop, len(self.steps.x)
        if self.apart or len(order) > rows:
            self.apart = True
            return loop.reorder(order)
        padded = F.pad(order, (0, rows - len(order)))
        if loop.contexts:
            sentences, together, moved = loop.sentences(padded)
            if not together:
                self.apart = True
                return loop.reorder(order)
            if moved:
                reorder_in_place(loop.contexts, sentences, loop.heads)
        reorder_in_place(loop.memory_sources(), padded, loop.heads)
        self.rows = len(order)

    def restart(self, rows: Tensor) -> None:
        """As of `Loop`."""
        missing = 0 if self.apart else len(self.steps.x) - len(rows)
        self.steps.loop.restart(F.pad(rows, (0, missing)))


@torch.no_grad()
def reorder_in_place(sources: Sequence[Source], order: Tensor, heads: int) -> None:
    """As `reorder` of each source, for a number of rows that remains. The buffers stay where graphs expect them."""
    once = {id(x): x for source in sources for x in source.written()}  # sources share a mask
    for x in once.values():
        x.copy_(reorder_rows(x, order, heads))
