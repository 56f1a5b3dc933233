"""The engine of the Feedback Transformer. It computes the same function as `feedback_reference`.

Keys and values are written into buffers in place. The backward pass leaves all that no earlier step needs until the end
of the loop over the steps of a block (see `loop` and `backward`).

T steps, B batch, C width, H heads, S source positions, G memories a step.
"""

import torch
from torch import Tensor

from fairseq_plugins.modules.common.row_ends import last_vectors
from fairseq_plugins.modules.common.untraced import untraced
from fairseq_plugins.modules.feedback.engine.block_graph import CapturedLoop
from fairseq_plugins.modules.feedback.engine.compiled_loop import CompiledLoop, computes
from fairseq_plugins.modules.feedback.engine.decoding_graphs import CapturedDecoding
from fairseq_plugins.modules.feedback.engine.graphs import Graphs
from fairseq_plugins.modules.feedback.engine.loop import STREAM_CAPACITY, Loop, LoopFunction, StepwiseLoop
from fairseq_plugins.modules.feedback.engine.state import RecurrenceState, no_autocast

INITIAL_CAPACITY = 32  # positions; doubled whenever the buffers are full


class FastRecurrence(RecurrenceState):
    """A Feedback Transformer between two steps: its state, and the loop that computes the steps.

    It is a `contracts.Recurrence`, whose `step` has no gradients. The arguments are those of `RecurrenceState`.

    Attributes:
        captures: whether blocks and steps may be launched as graphs, or on a CPU steps be compiled
        graphs: makes them; None: no graphs
        loop: of `run` or `record_steps`; None: none yet
        decoder: of `step` or `record_steps`; None: none yet
    """

    captures = True
    graphs: Graphs | None = None
    loop: Loop | CapturedLoop | None = None
    decoder: Loop | CapturedDecoding | None = None

    @untraced  # torch.compile would trace each step of each layer anew
    def run(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        record = torch.is_grad_enabled()
        with no_autocast(x.device):
            graph = self.graphs and self.graphs.loop(self, x, padding, record)
            loop = self.loop = graph or Loop(self, x[0], len(x), padding, record)
            return self.differentiable(loop, x) if record else loop.forward(x)

    def record_steps(self, like: Tensor, steps: int) -> None:
        """From now on `step` saves activations for a backward pass, for exactly `steps` steps with inputs like [B, C].
        This is for sequences that are made step by step and then learned from, as in reinforcement learning: with
        `recorded` the forward pass is not done twice."""
        with no_autocast(like.device):
            self.loop = self.decoder = StepwiseLoop(self, like, steps, record=True)

    def recorded(self, x: Tensor) -> Tensor:
        """The inputs of the recorded steps [T, B, C] -> their outputs [T, B, C], which can be differentiated."""
        assert isinstance(self.loop, StepwiseLoop), "no steps were recorded"
        with no_autocast(x.device):
            return self.differentiable(self.loop, x)

    def differentiable(self, loop: Loop | CapturedLoop, x: Tensor) -> Tensor:
        """`loop.forward(x)` as a node of the graph of autograd."""
        return LoopFunction.apply(loop, x, *self.tensors())

    def final_memories(self, width: int, padding: Tensor | None = None) -> list[Tensor]:
        assert self.loop is not None, "no block has been run yet"
        latest = [torch.stack(steps, dim=1) for steps in zip(*self.loop.memories)]
        steps = (torch.cat([past, new], dim=1) for past, new in zip(self.memories, latest))
        return [last_vectors(memories, width, padding).detach().clone() for memories in steps]

    @untraced
    @torch.no_grad()
    def step(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        with no_autocast(x.device):
            if self.decoder is None:
                graphs = self.graphs and self.graphs.decoding(self, x)
                self.decoder = graphs or self.new_decoder(x)
            return self.decoder.step(x), self.decoder.context_weights()

    def new_decoder(self, like: Tensor) -> Loop:
        """A loop for steps with inputs like [B, C]."""
        kind = CompiledLoop if self.captures and computes(self, like) else Loop
        return kind(self, like, INITIAL_CAPACITY if self.limits is None else STREAM_CAPACITY)

    def reorder(self, order: Tensor) -> None:
        assert self.decoder is not None, "no step has been taken yet"
        self.decoder.reorder(order)

    @torch.no_grad()
    def restart(self, rows: Tensor) -> None:
        assert self.decoder is not None, "no step has been taken yet"
        self.decoder.restart(rows)


class EagerRecurrence(FastRecurrence):
    """The fast engine, whose operations are always started one by one."""

    captures = False
