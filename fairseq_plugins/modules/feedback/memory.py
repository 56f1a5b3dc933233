"""Feedback memory: one vector a time step, mixed from the outputs of all layers (Fan et al., 2020, equation 1).

L layers, G memories a time step: one that all layers share, or (recurrent) one a layer.
"""

import re

import torch
from torch import Tensor, nn


class FeedbackMemory(nn.Module):
    """m_t = sum over l = 0..L of mixing_l x_t^l, where x^0 is the embedding and x^L the top layer's output.

    A subclass is one composition. `mixing()` returns its coefficients [G, L + 1], each row summing to one; layer number
    i (from 0) attends to memory i, or to memory 0 where G is 1.
    """

    count = 1  # G

    def __init__(self, num_layers: int):
        super().__init__()
        self.num_layers = num_layers

    def mixing(self) -> Tensor:
        raise NotImplementedError


class WeightedMemory(FeedbackMemory):
    """Softmax-weighted sum of all layers (equation 1), the plain average at the start."""

    def __init__(self, num_layers: int):
        super().__init__(num_layers)
        self.layer_logits = nn.Parameter(torch.zeros(num_layers + 1))

    def mixing(self) -> Tensor:
        return self.layer_logits.softmax(0).unsqueeze(0)


class RecurrentMemory(FeedbackMemory):
    """Layer l attends to its own sum over k = 0..l, x^l being its own output: recurrence without feedback from above
    (section 4.3.2)."""

    def __init__(self, num_layers: int):
        super().__init__(num_layers)
        self.count = num_layers
        self.layer_logits = nn.ParameterList(torch.zeros(layer + 1) for layer in range(1, num_layers + 1))

    def mixing(self) -> Tensor:
        rows = [nn.functional.pad(w.softmax(0), (0, self.num_layers + 1 - len(w))) for w in self.layer_logits]
        return torch.stack(rows)


class FixedMemory(FeedbackMemory):
    """The plain average of some layers, not learned (sections 4.3.2 and 6.4).

    Which layers is saved with the model, so that a checkpoint of another composition is refused.
    """

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


def average_memory(num_layers: int) -> FeedbackMemory:
    """The plain average of all layers (Figure 8)."""
    return FixedMemory(list(range(num_layers + 1)), num_layers)


def layer_memory(layer: int, num_layers: int) -> FeedbackMemory:
    """A single layer (Figure 8); layer 0 is the embedding."""
    if not 0 <= layer <= num_layers:
        raise ValueError(
            f"memory layer-{layer} does not exist; a model of {num_layers} layers has layer-0 (the "
            f"embedding) to layer-{num_layers}"
        )
    return FixedMemory([layer], num_layers)


def top_memory(num_layers: int) -> FeedbackMemory:
    """The topmost layer only (section 4.3.2)."""
    return layer_memory(num_layers, num_layers)


COMPOSITIONS = {
    "weighted": WeightedMemory,
    "top": top_memory,
    "average": average_memory,
    "recurrent": RecurrentMemory,
}


def build_feedback_memory(name: str, num_layers: int) -> FeedbackMemory:
    """A composition by its name: one of COMPOSITIONS, or `layer-I`. Raises ValueError for any other."""
    single = re.fullmatch(r"layer-(\d+)", name)
    if single:
        return layer_memory(int(single[1]), num_layers)
    if name not in COMPOSITIONS:
        raise ValueError(
            f"memory {name!r} is not known; choose {', '.join(COMPOSITIONS)} or layer-I with I from 0 to {num_layers}"
        )
    return COMPOSITIONS[name](num_layers)
