"""What the parts of this package promise each other, written as protocols. A class meets a protocol by having its
methods; it does not inherit from it.

B streams or rows of a batch, M block length, T steps, S positions, H heads, C width, G feedback memories a step.
"""

from typing import Protocol, Self, TypeVar, runtime_checkable

from torch import Tensor


@runtime_checkable
class DecodingState(Protocol):
    """What decoding carries from step to step, for B rows of a batch. `step` of its owner changes it in place."""

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] as row i. order [B'] may repeat rows and leave rows out."""


@runtime_checkable
class BodyMemory(Protocol):
    """The memory that a stream body hands from block to block. Nothing changes it in place.

    Its tensors carry no history for autograd. A list of tensors is what is saved to a file, so `from_tensors` reads all
    lists that `tensors` has ever made, those of earlier versions too. The first dimension of a floating-point
    tensor is that of the streams; a tensor of integers is the same for all streams.
    """

    def tensors(self) -> list[Tensor]:
        """Everything that has to be saved."""

    @classmethod
    def from_tensors(cls, tensors: list[Tensor]) -> Self:
        """The memory of which `tensors` made this list.

        Raises:
            ValueError: no memory of this type has such tensors
        """


MemoryT = TypeVar("MemoryT", bound=BodyMemory)
StateT = TypeVar("StateT", bound=DecodingState)


@runtime_checkable
class StreamBody(Protocol[MemoryT, StateT]):
    """The layers of a language model over B parallel streams, between the embedding and the output layer.

    `start` and then `step` for each token give what `forward` gives for a block of these tokens.

    Attributes:
        memory_type: the type of its memory
    """

    memory_type: type[MemoryT]

    def forward(self, x: Tensor, memory: MemoryT | None = None) -> tuple[Tensor, MemoryT]:
        """One block.

        Args:
            x: embeddings [B, M, C]
            memory: what the block before returned; None at the start of the streams

        Returns:
            Outputs [B, M, C], and the memory for the next block.

        Raises:
            ValueError: the memory is of a body with another number of layers
        """

    def start(self, memory: MemoryT | None, like: Tensor) -> StateT:
        """The state before the first step of decoding, after the blocks that `memory` is of. Embeddings are `like`
        [B, C] in batch size, type and device."""

    def step(self, state: StateT, x: Tensor) -> Tensor:
        """One embedding of each stream [B, C] -> output [B, C]"""


@runtime_checkable
class EpisodeBody(StreamBody[MemoryT, StateT], Protocol[MemoryT, StateT]):
    """A stream body whose rows may end and start at different steps, as the episodes of reinforcement learning do."""

    def forward(
        self, x: Tensor, memory: MemoryT | None = None, padding: Tensor | None = None
    ) -> tuple[Tensor, MemoryT]:
        """One block, of which the last padding[b] steps of row b are padding; None: none. The memory that is returned
        does not depend on padding."""

    def restart(self, state: StateT, rows: Tensor) -> None:
        """Start a new stream in some rows of step-by-step decoding; rows [B] is True there."""


@runtime_checkable
class BlockRecurrence(Protocol):
    """The Feedback Transformer over one block of a stream."""

    def run(self, x: Tensor) -> Tensor:
        """Embeddings [T, B, C] of T steps -> outputs of the top layer [T, B, C]"""

    def final_memories(self, width: int, padding: Tensor | None = None) -> list[Tensor]:
        """After `run`: the last `width` memories of the stream, G tensors [B, width, C], without their history. The
        last padding[b] steps of row b do not count."""


@runtime_checkable
class Recurrence(BlockRecurrence, DecodingState, Protocol):
    """An engine of the Feedback Transformer: its state between two time steps (Fan et al., 2020, section 3)."""

    def run(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Embeddings [T, B, C] of T steps -> outputs of the top layer [T, B, C]. padding [B, T] is True where x is
        padding."""

    def step(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """One embedding [B, C] -> output of the top layer [B, C], and its attention to the encoder [B, H, S] if there
        is an encoder."""

    def restart(self, rows: Tensor) -> None:
        """Start a new stream in some rows of step-by-step decoding; rows [B] is True there."""


@runtime_checkable
class Mixer(Protocol[StateT]):
    """A sublayer that mixes the tokens of a sequence. One that is not causal has no use for `start` and `step`.

    `start` and then `step` for each token give what `forward` gives for the sequence.
    """

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """x [B, T, C] -> [B, T, C]. padding [B, T] is True behind the end of a sequence."""

    def start(self, like: Tensor) -> StateT:
        """The state before the first token. Inputs are `like` [B, C] in batch size, type and device."""

    def step(self, state: StateT, x: Tensor) -> Tensor:
        """One token of each sequence [B, C] -> [B, C]"""
