"""The Feedback Transformer in chunks of c tokens with K parallel passes each: exact with c = 1 or K = c, else not.

All tokens of a chunk go through all layers together. They attend to the memories before the chunk, which are final, and
to those within it, which are first guessed and then computed K times. Each pass makes one more token exact: the first
needs no memory of the chunk, the second needs that of the first, and so on. So an update reads the keys and values
before a chunk K times, where the loop over tokens reads them c times.

B streams, T steps, n tokens of a chunk, C width, H heads, D width of a head, W memories that a layer sees, G memories a
step.
"""

from collections.abc import Iterable

import torch
from plain_recurrence import PlainRecurrence, split_heads
from torch import Tensor

from fairseq_plugins.modules.feedback.layer import FeedbackLayer
from fairseq_plugins.modules.feedback.memory import mix
from fairseq_plugins.modules.feedback.window import Limits
from fairseq_plugins.modules.span.band import into_band

KeysAndValues = list[Tensor]  # both [B, H, places, D]
Sources = dict[tuple[int, int], KeysAndValues]  # by the number of their memory, and the identity of their key matrix


class ChunkedRecurrence(PlainRecurrence):
    """An engine of `FeedbackStack` for blocks of a stream. It has no decoding, no dropout and no adaptive spans.

    Args:
        recurrence: as of PlainRecurrence
        chunk: c
        passes: K
        through: the gradient goes through all passes; else through the last, and the others are constants
    """

    def __init__(self, *recurrence, chunk: int, passes: int, through: bool = True):
        super().__init__(*recurrence)
        self.chunk, self.passes, self.through = chunk, passes, through
        self.sources = sources_of(self.layers, len(self.mixing))
        self.before = keys_and_values(self.layers, self.sources, torch.stack(self.memories, dim=2))

    def run(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Embeddings [T, B, C] -> outputs of the top layer [T, B, C]."""
        chunks = x.transpose(0, 1).split(self.chunk, dim=1)
        return torch.cat([self.run_chunk(chunk) for chunk in chunks], dim=1).transpose(0, 1)

    def run_chunk(self, x: Tensor) -> Tensor:
        """Embeddings [B, n, C] -> outputs of the top layer [B, n, C]."""
        memories = torch.stack([x] * len(self.mixing))  # the guess: equation (1) if all layers did nothing
        for number in range(1, self.passes + 1):
            final = number == self.passes
            with torch.set_grad_enabled(torch.is_grad_enabled() and (self.through or final)):
                y, memories = self.run_pass(x, memories)
        self.memories += memories.unbind(2)
        written = keys_and_values(self.layers, self.sources, memories)
        self.before = joined(self.before, written, max(limits.width for limits in self.limits))
        return y

    def run_pass(self, x: Tensor, guess: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings [B, n, C], memories of the chunk [G, B, n, C] -> outputs of the top layer [B, n, C], and these
        memories anew."""
        own = keys_and_values(self.layers, self.sources, guess[:, :, :-1])  # no token attends to itself
        seen = joined(self.before, own)
        states = [x]
        for layer, source, limits in zip(self.layers, self.sources, self.limits):
            states.append(self.layer_pass(layer, states[-1], seen[source], limits))
        return states[-1], torch.stack(mix(self.mixing.to(x), states))

    def layer_pass(self, layer: FeedbackLayer, x: Tensor, seen: KeysAndValues, limits: Limits) -> Tensor:
        """[B, n, C] -> [B, n, C]"""
        places = limits.width + x.size(1) - 1
        keys, values = (part[:, :, -places:] for part in seen)

        def attend(x):
            query = split_heads(layer.self_attn.q_proj(x), layer.config.heads)
            scores = query @ keys.transpose(2, 3) + into_band(query @ limits.position, float("-inf"))
            return layer.self_attn.out_proj((scores.softmax(-1) @ values).transpose(1, 2).flatten(2)), None

        x, _ = self.sublayer(layer, layer.self_attn_layer_norm, x, attend)
        x, _ = self.sublayer(layer, layer.final_layer_norm, x, lambda h: (self.feed_forward(layer, h), None))
        return x


def sources_of(layers: Iterable[FeedbackLayer], memories: int) -> list[tuple[int, int]]:
    """The source that each layer attends to, where a step has so many memories."""
    return [(min(i, memories - 1), id(layer.self_attn.k_proj)) for i, layer in enumerate(layers)]


def keys_and_values(layers: Iterable[FeedbackLayer], sources: list[tuple[int, int]], memories: Tensor) -> Sources:
    """Of memories [G, B, n, C]."""
    made: Sources = {}
    for layer, source in zip(layers, sources):
        if source not in made:
            projections, heads, memory = layer.self_attn, layer.config.heads, memories[source[0]]
            if layer.config.pre_norm:
                memory = layer.self_attn_layer_norm(memory)
            keys = projections.k_proj(memory) * layer.config.head_dim**-0.5
            made[source] = [split_heads(part, heads) for part in (keys, projections.v_proj(memory))]
    return made


def joined(first: Sources, then: Sources, last: int = 0) -> Sources:
    """The places of both, one after the other: the last so many; 0: all."""
    return {name: [torch.cat(both, dim=2)[:, :, -last:] for both in zip(first[name], then[name])] for name in first}
