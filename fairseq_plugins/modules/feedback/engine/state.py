"""The state of the recurrence, which all steps of a block read.

B batch, C width, H heads, D width of a head, R = B * H, S source positions, L layers, G memories a step, n steps in
memory.
"""

import copy
from collections.abc import Callable, Iterable
from typing import Self

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.layers import ModuleList
from fairseq_plugins.modules.feedback.engine.backward import Projection
from fairseq_plugins.modules.feedback.engine.caches import GrowingSource
from fairseq_plugins.modules.feedback.engine.memory_writer import Mixture
from fairseq_plugins.modules.feedback.engine.sliding_cache import SlidingSource, fastest_layout
from fairseq_plugins.modules.feedback.layer import FeedbackLayer
from fairseq_plugins.modules.feedback.window import Limits


def score_mask(padding: Tensor, heads: int, like: Tensor) -> Tensor:
    """padding [B, S] -> the mask [R, 1, S] that is added to scores: 0, or -inf for padding."""
    mask = like.new_zeros(padding.shape).masked_fill_(padding, float("-inf"))
    return mask.repeat_interleave(heads, dim=0).unsqueeze(1)


def product_dtype(weight: Tensor) -> torch.dtype:
    """The type in which products with this weight are computed now: under autocast half precision, as torch has it."""
    device = weight.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return weight.dtype


def no_autocast(device: torch.device):
    """A context in which operations compute in the types of their arguments."""
    return torch.autocast(device.type, enabled=False)


def cast_products(layers: ModuleList[FeedbackLayer], dtype: torch.dtype) -> ModuleList[FeedbackLayer]:
    """The same layers with their matrices cast to this type, once for all steps. Gradients go through the cast."""
    if layers[0].fc1.weight.dtype is dtype:
        return layers
    instead: dict[int, Tensor] = {id(parameter): parameter for parameter in layers.parameters()}
    for module in layers.modules():
        if isinstance(module, nn.Linear):
            instead.update((id(parameter), parameter.to(dtype)) for parameter in module.parameters())
    return copy.deepcopy(layers, instead)


def changed(value, change: Callable[[Tensor], object]):
    """A tensor, or tuples, lists and dictionaries of tensors, with a change made to each tensor."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: changed(item, change) for key, item in value.items()}
    if isinstance(value, tuple | list):
        items = [changed(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)  # a NamedTuple
    return value


def tensors_in(value) -> list[Tensor]:
    """The tensors in tuples, lists and dictionaries, in the order in which `changed` takes them."""
    found: list[Tensor] = []
    changed(value, found.append)
    return found


class RecurrenceState:
    """The tensors that the steps of a recurrence read: the projections of the memories, the encoder's keys and values,
    and the memories of earlier blocks.

    Args:
        layers: the stack, the lowest layer first.
        mixing: coefficients of the memories [G, L + 1].
        context: encoder output [B, S, context_dim], or None.
        context_padding: [B, S], True where the encoder's input is padding.
        beam: how many neighbouring rows of the batch share one row of the context (in step-by-step decoding only).
            Hypotheses for one sentence share the keys and values of its context.
        limits: for a stream, how far back each layer looks; None: to the start.
        memories: for a stream, those of earlier blocks, G tensors [B, n, C]. n is at least the width of every layer.
    """

    layout: type[SlidingSource] | None = None  # of the keys and values of a stream; None: the fastest in torch
    READ = "mixing", "context", "context_mask", "projections", "limits", "memories"  # besides the layers

    def __init__(
        self,
        layers: ModuleList[FeedbackLayer],
        mixing: Tensor,
        context: Tensor | None = None,
        context_padding: Tensor | None = None,
        beam: int = 1,
        limits: list[Limits] | None = None,
        memories: list[Tensor] | None = None,
    ):
        self.dtype = product_dtype(layers[0].fc1.weight)
        self.layers, self.mixing, self.beam = layers, mixing, beam
        self.heads = layers[0].config.heads
        self.limits = limits and [limit.for_products(self.dtype) for limit in limits]
        self.memories = memories or []
        self.context, self.context_mask = [], None
        if context is not None:
            self.context = [self.project_context(layer, context) for layer in layers]
            if context_padding is not None:
                self.context_mask = score_mask(context_padding, self.heads, self.context[0][0])
        with no_autocast(mixing.device):
            self.projections = self.project_memories()
        self.cast_layers = cast_products(layers, self.dtype)
        norm = layers[0].self_attn_layer_norm
        self.memory_norm = None
        if layers[0].config.pre_norm:
            self.memory_norm = nn.LayerNorm(norm.normalized_shape, norm.eps, elementwise_affine=False)

    def project_memories(self) -> dict[int, Projection]:
        """For each memory, by its number, the projection to the keys and values of all sources that are made of it,
        side by side."""
        memories: dict[int, dict[int, Projection]] = {}
        for layer, (memory, matrix) in zip(self.layers, self.sources()):
            if matrix not in (own := memories.setdefault(memory, {})):
                own[matrix] = key_and_value(layer)
        return {memory: joined(list(own.values()), self.dtype) for memory, own in memories.items()}

    def project_context(self, layer: FeedbackLayer, context: Tensor) -> tuple[Tensor, Tensor]:
        """Context [B, S, context_dim] -> its keys, scaled, and its values, both [R, S, D]."""
        projections, scale = layer.encoder_attn, layer.config.head_dim**-0.5
        assert projections is not None, "the layer does not attend to an encoder"
        made = projections.k_proj(context) * scale, projections.v_proj(context)
        keys, values = (split_heads(x, self.heads).flatten(0, 1) for x in made)
        return keys, values

    def sources(self) -> list[tuple[int, int]]:
        """The source of each layer."""
        return sources_of(self.layers, len(self.mixing))

    def new_source(
        self, key: tuple[int, int], like: Tensor, capacity: int, mask: Tensor | None
    ) -> GrowingSource | SlidingSource:
        """An empty source for inputs like [B, C], with room for `capacity` steps."""
        head_dim = self.layers[0].config.head_dim
        if self.limits is None:
            return GrowingSource(len(like), self.heads, head_dim, capacity, like, mask)
        widths = [limits.width for source, limits in zip(self.sources(), self.limits) if source == key]
        layout = self.layout or fastest_layout(like.device)
        return layout(len(like), self.heads, head_dim, max(widths), capacity, like)

    def new_mixture(self, like: Tensor, record: bool) -> Mixture:
        """Equation (1) for the steps of a loop, with embeddings like [B, C]; `record` is as of `Loop`. A subclass may
        have another equation."""
        return Mixture(self.mixing, like, record)

    def tensors(self) -> list[Tensor]:
        """The tensors that get gradients, besides the embeddings."""
        own = tensors_in((self.mixing, self.context, self.projections, self.limits))
        return [*own, *self.cast_layers.parameters()]

    def own_tensors(self) -> list[Tensor]:
        """All tensors that a block reads, in the order in which `mapped` changes them, but for the model's
        parameters."""
        own = tensors_in([getattr(self, name) for name in self.READ])
        return own if self.cast_layers is self.layers else [*own, *self.cast_layers.parameters()]

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same state with a change made to each of `own_tensors`."""
        twin = copy.copy(self)
        for name in self.READ:
            setattr(twin, name, changed(getattr(self, name), change))
        if self.cast_layers is not self.layers:
            instead = {id(x): change(x) for x in self.cast_layers.parameters()}
            twin.cast_layers = copy.deepcopy(self.cast_layers, instead)
        return twin


def sources_of(layers: Iterable[FeedbackLayer], memories: int) -> list[tuple[int, int]]:
    """The source of each layer, where a step has so many memories: the number of its memory, and the identity of its
    key matrix. Layers that agree in both share one source."""
    return [(min(i, memories - 1), id(layer.self_attn.k_proj)) for i, layer in enumerate(layers)]


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, n, C] -> [B, H, n, D]"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def key_and_value(layer: FeedbackLayer) -> Projection:
    """The key matrix, scaled, and below it the value matrix [2 * H * D, C], and their biases.

    With pre-norm, the scale and shift of the LayerNorm before them are multiplied into them. The rest of the LayerNorm
    is the same for all layers: autograd divides the gradients among the parameters.
    """
    scale, projections = layer.config.head_dim**-0.5, layer.self_attn
    key, value = projections.k_proj, projections.v_proj
    weight = torch.cat([key.weight * scale, value.weight])
    bias = None if key.bias is None else torch.cat([key.bias * scale, value.bias])
    if layer.config.pre_norm:
        norm = layer.self_attn_layer_norm
        shift = torch.mv(weight, norm.bias)
        weight, bias = weight * norm.weight, shift if bias is None else bias + shift
    return Projection(weight, bias)


def joined(projections: list[Projection], dtype: torch.dtype) -> Projection:
    """Several projections as one, their outputs side by side."""
    weights, biases = zip(*projections)
    return Projection(torch.cat(weights).to(dtype), None if biases[0] is None else torch.cat(biases).to(dtype))
