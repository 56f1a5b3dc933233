"""The slow twin of `engine/chunks`, which says what it computes: autograd differentiates all of it.

B streams, T steps, n tokens of a chunk, C width, H heads, D width of a head, W memories that a layer sees, G memories a
step.
"""

import torch
from plain_recurrence import PlainRecurrence, split_heads
from torch import Tensor

from fairseq_plugins.modules.feedback.layer import FeedbackLayer
from fairseq_plugins.modules.feedback.memory import mix
from fairseq_plugins.modules.feedback.window import Limits
from fairseq_plugins.modules.span.band import into_band

Sources = dict[tuple[int, int], list[Tensor]]  # keys and values, both [B, H, n, D], by what they are made of


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
        last = len(self.mixing) - 1
        self.sources = [(min(i, last), id(layer.self_attn.k_proj)) for i, layer in enumerate(self.layers)]
        self.before = self.keys_and_values(torch.stack(self.memories, dim=2))

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
        written = self.keys_and_values(memories)
        self.before = joined(self.before, written, max(limits.width for limits in self.limits))
        return y

    def run_pass(self, x: Tensor, guess: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings [B, n, C], memories of the chunk [G, B, n, C] -> outputs of the top layer [B, n, C], and these
        memories anew."""
        own = self.keys_and_values(guess[:, :, :-1])  # no token attends to itself
        seen = joined(self.before, own)
        states = [x]
        for layer, source, limits in zip(self.layers, self.sources, self.limits):
            states.append(self.layer_pass(layer, states[-1], seen[source], limits))
        return states[-1], torch.stack(mix(self.mixing.to(x), states))

    def layer_pass(self, layer: FeedbackLayer, x: Tensor, seen: list[Tensor], limits: Limits) -> Tensor:
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

    def keys_and_values(self, memories: Tensor) -> Sources:
        """Of memories [G, B, n, C]."""
        made: Sources = {}
        for layer, source in zip(self.layers, self.sources):
            memory = memories[source[0]]
            memory = layer.self_attn_layer_norm(memory) if layer.config.pre_norm else memory
            keys, values = layer.self_attn.k_proj(memory), layer.self_attn.v_proj(memory)
            made[source] = [split_heads(x, layer.config.heads) for x in (keys * layer.config.head_dim**-0.5, values)]
        return made


def joined(first: Sources, then: Sources, last: int = 0) -> Sources:
    """The places of both, one after the other: the last so many; 0: all."""
    return {name: [torch.cat(both, dim=2)[:, :, -last:] for both in zip(first[name], then[name])] for name in first}
