"""Training in chunks of c tokens with K parallel passes over each: an approximation, exact with K = c.

All tokens of a chunk go through all layers together. They attend to the memories before the chunk, which are final, and
to those within it, which are first guessed from the embeddings and then computed K times. Each pass makes one more
token exact: the first needs no memory of the chunk, the second needs that of the first, and so on. So an update reads
the keys and values before a chunk K times, where the loop over tokens reads them c times.

B streams, C width, H heads, R = B * H rows, D width of a head, T steps, n tokens of a chunk, W memories that a layer
sees, G memories a step.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.dropout import Masked, draw
from fairseq_plugins.modules.common.layers import ModuleList
from fairseq_plugins.modules.common.row_ends import last_vectors
from fairseq_plugins.modules.common.untraced import untraced
from fairseq_plugins.modules.feedback.engine.places import Attend, Places, Write
from fairseq_plugins.modules.feedback.engine.state import no_autocast, product_dtype, sources_of, split_heads
from fairseq_plugins.modules.feedback.layer import FeedbackLayer
from fairseq_plugins.modules.feedback.memory import mix
from fairseq_plugins.modules.feedback.window import Limits
from fairseq_plugins.modules.span.band import into_band

Source = tuple[int, int]  # of keys and values, as `sources_of` names them


@dataclass(frozen=True)
class Chunks:
    """How blocks of a stream are trained.

    Raises:
        ValueError: a chunk has fewer than two tokens, or there is no pass or more of them than tokens
    """

    tokens: int  # c
    passes: int  # K

    def __post_init__(self):
        if self.tokens < 2:
            raise ValueError(f"a chunk has 2 tokens or more, not {self.tokens}")
        if not 1 <= self.passes <= self.tokens:
            raise ValueError(f"a chunk of {self.tokens} tokens has 1 to {self.tokens} passes, not {self.passes}")


class ChunkRecurrence:
    """A block of a stream in training, without adaptive spans. It is a `contracts.BlockRecurrence`, which runs once.

    Args:
        layers, mixing, limits, memories: as of `RecurrenceState`
    """

    def __init__(
        self,
        layers: ModuleList[FeedbackLayer],
        mixing: Tensor,
        limits: list[Limits],
        memories: list[Tensor],
        chunks: Chunks,
    ):
        dtype = product_dtype(layers[0].fc1.weight)
        self.layers, self.mixing, self.memories, self.chunks = layers, mixing, [torch.stack(memories)], chunks
        self.limits = [each.for_products(dtype) for each in limits]
        self.sources = sources_of(layers, len(mixing))
        self.places: dict[Source, Places] = {}
        self.links: dict[Source, Tensor] = {}  # of the last writing to the places of a source
        # of dropout at the places of a layer, for all passes over a chunk
        self.masks: dict[tuple[nn.Module, nn.Module], tuple[Tensor, float]] = {}

    @untraced  # torch.compile cannot trace what an attention leaves to the places
    def run(self, x: Tensor) -> Tensor:
        self.write(self.memories[0], capacity=self.memories[0].size(2) + len(x))
        outputs = [self.run_chunk(chunk) for chunk in x.transpose(0, 1).split(self.chunks.tokens, dim=1)]
        y = torch.cat(outputs, dim=1).transpose(0, 1)
        # Zeros: so the last memories, to which nothing has attended yet, have gradients too. Several processes need
        # those of all parameters.
        return y + sum(link.sum() for link in self.links.values())

    def run_chunk(self, x: Tensor) -> Tensor:
        """Embeddings [B, n, C] -> outputs of the top layer [B, n, C]."""
        memories, y = torch.stack([x] * len(self.mixing)), x  # the guess: equation (1) if all layers did nothing
        self.masks.clear()
        for _ in range(min(self.chunks.passes, x.size(1))):  # as many as tokens are exact
            y, memories = self.run_pass(x, memories)
        self.write(memories)
        self.memories.append(memories)
        return y

    def write(self, memories: Tensor, capacity: int = 0) -> None:
        """Memories [G, B, n, C] become the next places of all sources; those of the first writing have a capacity."""
        for source, (keys, values) in self.keys_and_values(memories).items():
            if source not in self.places:
                self.places[source], self.links[source] = Places(keys, capacity), keys.new_zeros(0)
            self.links[source] = Write.apply(keys, values, self.links[source], self.places[source])

    def run_pass(self, x: Tensor, guess: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings [B, n, C], memories of the chunk [G, B, n, C] -> outputs of the top layer [B, n, C], and these
        memories anew."""
        own = self.keys_and_values(guess[:, :, :-1])  # no token attends to itself
        states = [x]
        for layer, source, limits in zip(self.layers, self.sources, self.limits):
            states.append(self.layer_pass(layer, states[-1], source, own[source], limits))
        with no_autocast(x.device):  # a memory is as exact as the residual stream
            return states[-1], torch.stack(mix(self.mixing.to(x), states))

    def layer_pass(self, layer: FeedbackLayer, x: Tensor, source: Source, own: list[Tensor], limits: Limits) -> Tensor:
        """[B, n, C] -> [B, n, C]"""
        x = self.sublayer(layer, layer.self_attn_layer_norm, x, lambda h: self.attend(layer, h, source, own, limits))
        return self.sublayer(layer, layer.final_layer_norm, x, lambda h: self.feed_forward(layer, h))

    def sublayer(self, layer: FeedbackLayer, norm: nn.Module, x: Tensor, body: Callable[[Tensor], Tensor]) -> Tensor:
        """The body with residual connection, dropout and LayerNorm around it."""
        pre_norm = layer.config.pre_norm
        y = x + self.dropout(body(norm(x) if pre_norm else x), layer.config.dropout, layer, norm)
        return y if pre_norm else norm(y)

    def attend(self, layer: FeedbackLayer, x: Tensor, source: Source, own: list[Tensor], limits: Limits) -> Tensor:
        heads, projections = layer.config.heads, layer.self_attn
        query = split_heads(projections.q_proj(x), heads).flatten(0, 1)
        with no_autocast(x.device):
            bias = into_band(query @ limits.position, float("-inf"))
            dropout = self.drawn(bias, layer.config.attention_dropout, layer, projections)
            y = Attend.apply(query, bias, *own, *dropout, self.links[source], self.places[source], limits.width)
        return projections.out_proj(y.unflatten(0, (-1, heads)).transpose(1, 2).flatten(2))

    def feed_forward(self, layer: FeedbackLayer, x: Tensor) -> Tensor:
        hidden = ACTIVATIONS[layer.config.activation].forward(layer.fc1(x))
        return layer.fc2(self.dropout(hidden, layer.config.activation_dropout, layer, layer.fc2))

    def dropout(self, x: Tensor, rate: float, layer: FeedbackLayer, place: nn.Module) -> Tensor:
        mask, scale = self.drawn(x, rate, layer, place)
        return x if mask is None else Masked.apply(x, mask, scale)

    def drawn(self, like: Tensor, rate: float, layer: FeedbackLayer, place: nn.Module) -> tuple[Tensor | None, float]:
        """The mask and the scale of dropout at a place of a layer; None: no dropout."""
        if not (rate and layer.training):
            return None, 1.0
        if (layer, place) not in self.masks:
            self.masks[layer, place] = draw(like, rate)
        return self.masks[layer, place]

    def keys_and_values(self, memories: Tensor) -> dict[Source, list[Tensor]]:
        """Of memories [G, B, n, C], for each source both [R, n, D]."""
        made: dict[Source, list[Tensor]] = {}
        for layer, source in zip(self.layers, self.sources):
            if source not in made:
                projections, memory = layer.self_attn, memories[source[0]]
                if layer.config.pre_norm:
                    memory = layer.self_attn_layer_norm(memory)
                pair = projections.k_proj(memory) * layer.config.head_dim**-0.5, projections.v_proj(memory)
                made[source] = [split_heads(part, layer.config.heads).flatten(0, 1) for part in pair]
        return made

    def final_memories(self, width: int, padding: Tensor | None = None) -> list[Tensor]:
        memories = torch.cat(self.memories, dim=2).detach()
        return [last_vectors(each, width, padding).clone() for each in memories]
