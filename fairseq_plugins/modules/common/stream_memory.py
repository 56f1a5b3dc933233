"""The memory of parallel streams, which goes from block to block. It is an object of its own, outside of the model.

B streams, times in tokens.
"""

import weakref
from typing import NamedTuple

from torch import Tensor, nn

from fairseq_plugins.modules.contracts import BodyMemory, MemoryT


class LoadedTensors(NamedTuple):
    """A memory read from a file. Only the model knows its type; see `StreamMemory.read`."""

    parts: list[Tensor]

    def tensors(self) -> list[Tensor]:
        return self.parts

    @classmethod
    def from_tensors(cls, tensors: list[Tensor]) -> "LoadedTensors":
        return cls(tensors)


class StreamMemory:
    """The memory of B parallel streams, and the position in them.

    The model calls `read` at the start of a block and `advance` at its end. The owner of the streams calls `reset` at
    their start. In a training that is the task, which owns one memory for training and one for each evaluated split.

    Attributes:
        content: None before the first block; else the memory that the model returned, in the model's own type
        position: how many tokens of each stream were read so far
    """

    def __init__(self):
        self.reset()

    def reset(self) -> None:
        """Go to the start of the streams. From now on another model may use the memory."""
        self.content: BodyMemory | None = None
        self.position = 0
        self._owner: weakref.ref[nn.Module] | None = None

    def claim(self, model: nn.Module) -> None:
        """Note which model uses the memory. To be called before `read`.

        Raises:
            ValueError: another model has used it since the last reset
        """
        owner = self._owner and self._owner()
        if owner is not None and owner is not model:
            raise ValueError("this memory is of another model; give each model a StreamMemory of its own.")
        self._owner = weakref.ref(model)

    def read(self, memory_type: type[MemoryT]) -> MemoryT | None:
        """The content, which is of this type; None at the start of the streams.

        Raises:
            ValueError: the content is of another type, or was loaded from a file and no memory of this type is like it
        """
        if isinstance(self.content, LoadedTensors):
            self.content = memory_type.from_tensors(self.content.parts)
        if self.content is not None and not isinstance(self.content, memory_type):
            ours, wanted = type(self.content).__name__, memory_type.__name__
            raise ValueError(f"this memory is a {ours}, the model needs a {wanted}; give each model one of its own.")
        return self.content

    def advance(self, content: BodyMemory, tokens: int) -> None:
        """Replace the content after a block of `tokens` tokens.

        Raises:
            ValueError: a tensor of the content carries history for autograd, which would keep earlier blocks in memory
        """
        if any(tensor.requires_grad for tensor in content.tensors()):
            name = type(content).__name__
            raise ValueError(f"a {name} carries history for autograd; detach its tensors before the body returns it.")
        self.content = content
        self.position += tokens

    def tensors(self) -> list[Tensor]:
        """All tensors of the content, none at the start of the streams."""
        return [] if self.content is None else self.content.tensors()

    def copy(self) -> "StreamMemory":
        """A memory of its own with the same content, which no model has claimed yet."""
        copy = StreamMemory()
        copy.content, copy.position = self.content, self.position
        return copy

    def state_dict(self) -> dict:
        """The content of a file: the tensors, under the name that the first version of this suite gave them, and the
        position."""
        return {"caches": [tensor.cpu() for tensor in self.tensors()], "position": self.position}

    def load_state_dict(self, state: dict, device=None) -> None:
        """Take over what another memory's `state_dict` returned, its tensors moved to `device` if one is given.

        Raises:
            ValueError: there are no tensors, though tokens were read
        """
        self.reset()
        tensors = [tensor.to(device) for tensor in state["caches"]]
        if not tensors and state["position"]:
            raise ValueError(f"the memory of {state['position']} tokens is empty")
        self.content = LoadedTensors(tensors) if tensors else None
        self.position = state["position"]
