"""Decoding step by step as graphs.

B batch, C width.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from fairseq_plugins.modules.feedback.engine.block_graph import Inputs
from fairseq_plugins.modules.feedback.engine.caches import Source, reorder_rows
from fairseq_plugins.modules.feedback.engine.cuda_capture import Capture
from fairseq_plugins.modules.feedback.engine.loop import Loop
from fairseq_plugins.modules.feedback.engine.state import RecurrenceState

if TYPE_CHECKING:
    from fairseq_plugins.modules.feedback.engine.graphs import Graphs


class DecodingGraphs:
    """One graph for each number of steps that the buffers can hold. One `CapturedDecoding` at a time uses them.

    Args:
        state: of the first sequences; later ones have the same shapes
        x: embeddings are like it [B, C]
        capacity: room for so many steps
        capture: captures operations
        warm: steps of these shapes have been computed before; otherwise each is computed once before it is captured

    Attributes:
        x: to be written before a step
        loop: its buffers are those of all graphs; it also computes steps without a graph
        fill: fills the buffers of a captured loop anew, for new sequences
        attributes: those of the loop's parts at the start of a sequence
        computed: the places whose step has been computed before
        steps: for each place the outputs of its graph, the graph, and the place after it
        user: the present CapturedDecoding
    """

    def __init__(self, state: RecurrenceState, x: Tensor, capacity: int, capture: Capture, warm: bool):
        self.inputs, self.capture, self.capacity, self.warm = Inputs(), capture, capacity, warm
        self.twin, self.x = state.mapped(self.inputs.copy), x.clone()
        self.computed = set(range(capacity + 1)) if warm else set()
        self.loop: Loop
        self.fill: Callable[[], None] | None = None
        self.attributes: list[tuple[object, dict]] = []
        self.steps: dict[int, tuple[tuple[Tensor, Tensor | None], Callable[[], None], int]] = {}
        self.user: Callable[[], CapturedDecoding | None] = lambda: None

    def begin(self, tensors: list[Tensor]) -> None:
        """Start new sequences, whose state holds these tensors."""
        self.inputs.load(tensors)
        if not self.warm:
            self.loop, self.warm = self.new_loop(), True
            return
        if self.fill is None:
            self.loop, self.fill = self.capture(self.new_loop)
            loop = self.loop
            parts = [*loop.memory_sources(), *loop.contexts, *loop.context_attentions, loop]
            self.attributes = [(part, dict(vars(part))) for part in parts]
            self.steps.clear()  # their buffers were those of an earlier loop
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
        """Whether the next step can be a graph. A step for which the buffers are too small makes larger ones."""
        return self.place < self.capacity or self.twin.limits is not None

    def one_by_one(self) -> tuple[Tensor, Tensor | None]:
        """The result of `FastRecurrence.step` for the embeddings in `x`."""
        return self.loop.step(self.x), self.loop.context_weights()

    def step(self) -> tuple[Tensor, Tensor | None]:
        """The same by a graph, once the step has been computed before. The next step overwrites the result."""
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
    """The decoding of some sequences by `DecodingGraphs`, with the methods of a `Loop` that decoding calls.

    A graph's shapes are constant, so rows that have left the batch are computed all the same.

    Args:
        graphs: of the stack
        steps: of sequences of these shapes
        tensors: those of the sequences' state

    Attributes:
        apart: the rows of a sentence are no longer together, so the loop goes on without graphs
        weights: the latest attention to the encoder
    """

    def __init__(self, graphs: "Graphs", steps: DecodingGraphs, tensors: list[Tensor]):
        self.graphs, self.steps, self.rows = graphs, steps, len(steps.x)
        self.apart = False
        self.weights: Tensor | None = None
        steps.begin(tensors)

    def step(self, x: Tensor) -> Tensor:
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
        return self.steps.loop.context_weights() if self.apart else self.weights

    def reorder(self, order: Tensor) -> None:
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
        missing = 0 if self.apart else len(self.steps.x) - len(rows)
        self.steps.loop.restart(F.pad(rows, (0, missing)))


@torch.no_grad()
def reorder_in_place(sources: Sequence[Source], order: Tensor, heads: int) -> None:
    """As `reorder` of each source, for a number of rows that remains. The buffers stay where graphs expect them."""
    once = {id(x): x for source in sources for x in source.written()}  # sources share a mask
    for x in once.values():
        x.copy_(reorder_rows(x, order, heads))
