"""A block as two graphs: one of the forward pass and one of the backward pass.

A graph repeats its operations on the same memory. The inputs are copied into it first, and the results are copied out.

T steps, B batch, C width, G memories a step.
"""

import torch
from torch import Tensor

from fairseq_plugins.modules.feedback.engine.cuda_capture import Capture, release_memory
from fairseq_plugins.modules.feedback.engine.loop import Loop
from fairseq_plugins.modules.feedback.engine.state import RecurrenceState


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


class LoopGraph:
    """The graphs of a block of these shapes. The arguments are as of `Graphs.loop`.

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
    """A block that is computed by a `LoopGraph`, with the methods of a `Loop` that `FastRecurrence.run` calls.

    Args:
        inputs: the values for `graph.inputs`

    Attributes:
        waits: the graph's memory holds activations for the backward pass of this block
    """

    def __init__(self, graph: LoopGraph, state: RecurrenceState, inputs: list[Tensor]):
        self.graph, self.inputs, self.tensors = graph, inputs, state.tensors()
        self.memories: list[tuple[Tensor, ...]] = []
        self.waits = False

    def forward(self, x: Tensor) -> Tensor:
        """As of `Loop`. The results are copies, because the next block overwrites the graph's memory."""
        self.graph.inputs.load(self.inputs)
        self.inputs = []
        self.graph.replay_forward()
        self.waits = True
        self.memories = list(zip(*(memories.clone().unbind(1) for memories in self.graph.memories)))
        return self.graph.y.clone()

    def backward(self, d_top: Tensor) -> tuple[Tensor, dict[int, Tensor]]:
        self.graph.d_top.copy_(d_top)
        self.graph.replay_backward()
        self.waits = False
        pairs = zip(self.tensors, self.graph.gradients)
        return self.graph.dx.clone(), {id(x): gradient.clone() for x, gradient in pairs if gradient is not None}
