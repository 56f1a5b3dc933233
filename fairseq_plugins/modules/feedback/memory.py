"""Equation (1) of the Feedback Transformer (Fan et al., 2020): the memory of a step is a mix of all layers' outputs.

    m_t = sum over l = 0..L of softmax(w)_l x_t^l, where x_t^0 is the embedding and x_t^L the top layer's output

T steps, B streams or rows of a batch, C width, L layers, n steps in memory. G memories a time step: one that all
layers share, or one a layer (`RecurrentMemory`).
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


def mix(mixing: Tensor, outputs: Sequence[Tensor]) -> list[Tensor]:
    """Equation (1) for one time step: coefficients [G, L + 1] and outputs x^0 .. x^L, each [B, C] -> the G memories
    m^g = sum over l of mixing^g_l x^l, each [B, C]."""
    # one product, whose coefficients stay on the device: as numbers they would make the host wait for it
    memories = torch.mm(mixing, torch.stack(tuple(outputs)).flatten(1))
    return list(memories.view(-1, *outputs[0].shape).unbind())


def mix_backward_outputs(d_memories: Sequence[Tensor], mixing: Tensor) -> Tensor:
    """The gradients of x^0 .. x^L through equation (1) [L + 1, B, C], each the sum over g of mixing^g_l dm^g, for
    gradients of the G memories [B, C]."""
    first, *others = d_memories
    d_memory = torch.stack((first, *others)) if others else first.unsqueeze(0)
    return torch.mm(mixing.t(), d_memory.flatten(1)).view(-1, *first.shape)


def mix_backward_mixing(d_memories: Sequence[Tensor], outputs: Sequence[Tensor]) -> Tensor:
    """The gradient of the coefficients of equation (1) [G, L + 1] in float64: for each g and l the sum of dm^g x^l over
    all elements and steps, which lie one below the other in the arguments, each [T * B, C]."""
    rows = [torch.stack([(dm * x).sum(dtype=torch.float64) for x in outputs]) for dm in d_memories]
    return torch.stack(rows)


class FeedbackMemory(NamedTuple):
    """The memories that go from block to block of a stream: G tensors [B, n, C], the oldest first, before any
    LayerNorm."""

    vectors: list[Tensor]

    def tensors(self) -> list[Tensor]:
        return self.vectors

    @classmethod
    def from_tensors(cls, tensors: list[Tensor]) -> "FeedbackMemory":
        return cls(list(tensors))


class MemoryComposition(nn.Module):
    """Which layers the memory of a time step is made of. A subclass is one composition.

    Layer number i, counted from 0, attends to memory i, or to memory 0 where G is 1.

    Attributes:
        count: G
    """

    count = 1

    def __init__(self, num_layers: int):
        super().__init__()
        self.num_layers = num_layers

    def mixing(self) -> Tensor:
        """The coefficients of equation (1) [G, L + 1]. Each row sums to one."""
        raise NotImplementedError

    def layer_weights(self) -> list[list[float]]:
        """The share of each layer in each memory [G, L + 1], for logs and pictures."""
        return self.mixing().tolist()


class WeightedMemory(MemoryComposition):
    """A sum of all layers, weighted by a learned softmax (equation 1). At first it is the plain average."""

    def __init__(self, num_layers: int):
        super().__init__(num_layers)
        self.layer_logits = nn.Parameter(torch.zeros(num_layers + 1))

    def mixing(self) -> Tensor:
        return self.layer_logits.softmax(0).unsqueeze(0)


class RecurrentMemory(MemoryComposition):
    """Layer l attends to a memory of its own, a sum over x^0 .. x^l, where x^l is its own output. This is recurrence
    without feedback from the layers above (section 4.3.2)."""

    def __init__(self, num_layers: int):
        super().__init__(num_layers)
        self.count = num_layers
        self.layer_logits = nn.ParameterList(torch.zeros(layer + 1) for layer in range(1, num_layers + 1))

    def mixing(self) -> Tensor:
        rows = [nn.functional.pad(w.softmax(0), (0, self.num_layers + 1 - len(w))) for w in self.layer_logits]
        return torch.stack(rows)


class FixedMemory(MemoryComposition):
    """The plain average of some layers, which is not learned (sections 4.3.2 and 6.4).

    The choice of layers is saved with the model, so a checkpoint of another composition is refused.
    """

    layers: Tensor

    def __init__(self, layers: list[int], num_layers: int):
        super().__init__(num_layers)
        self.register_buffer("layers", torch.tensor([int(layer in layers) for layer in range(num_layers + 1)]))

    def mixing(self) -> Tensor:
        return (self.layers.double() / self.layers.sum()).unsqueeze(0)

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        saved = state_dict.get(prefix + "layers")
        if saved is not None and saved.tolist() != self.layers.tolist():
            errors.append(f"the memory of the checkpoint is made of layers {saved.nonzero().flatten().tolist()}.")
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)


def layer_memory(layer: int, num_layers: int) -> MemoryComposition:
    """A single layer (Figure 8). Layer 0 is the embedding.

    Raises:
        ValueError: the model has no such layer
    """
    if not 0 <= layer <= num_layers:
        raise ValueError(
            f"memory layer-{layer} does not exist; a model of {num_layers} layers has layer-0 (the "
            f"embedding) to layer-{num_layers}"
        )
    return FixedMemory([layer], num_layers)


COMPOSITIONS: dict[str, Callable[[int], MemoryComposition]] = {
    "weighted": WeightedMemory,
    "top": lambda num_layers: layer_memory(num_layers, num_layers),  # section 4.3.2
    "average": lambda num_layers: FixedMemory(list(range(num_layers + 1)), num_layers),  # Figure 8
    "recurrent": RecurrentMemory,
}


def build_composition(name: str, num_layers: int) -> MemoryComposition:
    """The composition of this name: one of COMPOSITIONS, or `layer-I`.

    Raises:
        ValueError: the name is not known
    """
    single = re.fullmatch(r"layer-(\d+)", name)
    if single:
        return layer_memory(int(single[1]), num_layers)
    if name not in COMPOSITIONS:
        raise ValueError(
            f"memory {name!r} is not known; choose {', '.join(COMPOSITIONS)} or layer-I with I from 0 to {num_layers}"
        )
    return COMPOSITIONS[name](num_layers)
