"""The Feedback Transformer in chunks, as `chunked_recurrence`, without copies of keys and values.

Keys and values of a block lie in one buffer. An attention reads the places before its chunk where they are, and its
backward pass leaves them the factors of their gradients. The gradients of a chunk's places are made when all later
attentions have been differentiated: every attention takes the token of the last chunk that was written, so autograd
differentiates the writing of a chunk after all of them.

B streams, C width, H heads, R = B * H rows, D width of a head, n tokens of a chunk, W memories that a layer sees, G
memories a step, E attentions of a group.
"""

from contextlib import nullcontext

import torch
from chunked_recurrence import keys_and_values, sources_of
from plain_recurrence import split_heads
from torch import Tensor

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.dropout import draw
from fairseq_plugins.modules.common.layers import ModuleList
from fairseq_plugins.modules.common.row_ends import last_vectors
from fairseq_plugins.modules.feedback.engine.state import no_autocast
from fairseq_plugins.modules.feedback.layer import FeedbackLayer
from fairseq_plugins.modules.feedback.memory import mix
from fairseq_plugins.modules.feedback.window import Limits
from fairseq_plugins.modules.span.band import into_band


class Places:
    """Keys and values of one source, [R, S + T, D]: S before the block, and those of its T steps so far.

    Attributes:
        end: how many places are written
        token: of the last writing, an empty tensor
    """

    def __init__(self, keys: Tensor, values: Tensor, steps: int):
        shape = (keys.size(0), keys.size(1) + steps, keys.size(2))
        self.keys, self.values = keys.new_empty(shape), keys.new_empty(shape)
        self.end, self.attended = 0, {}  # by the window [first, end) of an attention
        self.token = keys.new_zeros(0, requires_grad=True)
        self.write(keys, values)

    def write(self, keys: Tensor, values: Tensor) -> None:
        """The next places, both [R, n, D]."""
        self.token = Write.apply(keys, values, self.token, self)

    def gradients(self, first: int, end: int) -> tuple[Tensor, Tensor]:
        """Of the keys and values of places that no attention will be differentiated with any more."""
        shape = (self.keys.size(0), end - first, self.keys.size(2))
        d_keys, d_values = self.keys.new_zeros(shape), self.keys.new_zeros(shape)
        for (low, high), factors in self.attended.items():
            a, b = max(first, low), min(end, high)
            if a < b:
                query, d_scores, weights, d_y = stacked(factors)
                place, columns = slice(a - first, b - first), slice(a - low, b - low)
                d_keys[:, place] += torch.bmm(d_scores[..., columns].transpose(1, 2), query)
                d_values[:, place] += torch.bmm(weights[..., columns].transpose(1, 2), d_y)
        return d_keys, d_values


def stacked(factors: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Those of E attentions [R, n, ...] as one [R, E * n, ...]."""
    if len(factors) > 1:
        factors[:] = [tuple(torch.cat(each, dim=1) for each in zip(*factors))]
    return factors[0]


class Write(torch.autograd.Function):
    """Keys and values [R, n, D] become the next places."""

    @staticmethod
    def forward(ctx, keys, values, token, places: Places):
        ctx.places, ctx.first, ctx.end = places, places.end, places.end + keys.size(1)
        places.keys[:, ctx.first : ctx.end], places.values[:, ctx.first : ctx.end] = keys, values
        places.end = ctx.end
        return token.clone()

    @staticmethod
    def backward(ctx, d_token):
        return *ctx.places.gradients(ctx.first, ctx.end), d_token, None


class Attend(torch.autograd.Function):
    """Attention of queries [R, n, D] to the W places before the chunk and to own keys and values [R, n - 1, D], with
    ``bias`` [R, n, W + n - 1] added to the scores, and weights times ``kept``, of the same shape, or None."""

    @staticmethod
    def forward(ctx, query, bias, own_keys, own_values, kept, token, places: Places, width: int):
        window = places.end - width, places.end
        keys, values = places.keys[:, slice(*window)], places.values[:, slice(*window)]
        scores = torch.cat([torch.bmm(query, keys.transpose(1, 2)), torch.bmm(query, own_keys.transpose(1, 2))], -1)
        weights = scores.add_(bias).softmax(-1)
        dropped = weights if kept is None else weights * kept
        ctx.save_for_backward(query, own_keys, own_values, weights, dropped, kept)
        ctx.places, ctx.window, ctx.width = places, window, width
        return torch.bmm(dropped[..., :width], values) + torch.bmm(dropped[..., width:], own_values)

    @staticmethod
    def backward(ctx, d_y):
        query, own_keys, own_values, weights, dropped, kept = ctx.saved_tensors
        places, width = ctx.places, ctx.width
        keys, values = places.keys[:, slice(*ctx.window)], places.values[:, slice(*ctx.window)]
        d_weights = torch.cat([torch.bmm(d_y, values.transpose(1, 2)), torch.bmm(d_y, own_values.transpose(1, 2))], -1)
        if kept is not None:
            d_weights *= kept
        d_scores = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)
        places.attended.setdefault(ctx.window, []).append((query, d_scores[..., :width], dropped[..., :width], d_y))
        own = d_scores[..., width:]
        d_query = torch.bmm(d_scores[..., :width], keys) + torch.bmm(own, own_keys)
        d_own_values = torch.bmm(dropped[..., width:].transpose(1, 2), d_y)
        d_own_keys = torch.bmm(own.transpose(1, 2), query)
        return d_query, d_scores, d_own_keys, d_own_values, None, d_y.new_zeros(0), None, None


class ChunkEngine:
    """A block of a stream in training, in chunks of c tokens with K passes each.

    Args:
        layers, mixing, limits, memories: of `contracts.Recurrence`
        chunk: c
        passes: K
        through: the gradient goes through all passes; else through the last, and the others are constants
    """

    def __init__(
        self,
        layers: ModuleList[FeedbackLayer],
        mixing: Tensor,
        context: None,
        context_padding: None,
        beam: int,
        limits: list[Limits],
        memories: list[Tensor],
        chunk: int,
        passes: int,
        through: bool = True,
    ):
        self.layers, self.mixing, self.limits, self.memories = layers, mixing, limits, [torch.stack(memories)]
        self.chunk, self.passes, self.through = chunk, passes, through
        self.sources = sources_of(layers, len(mixing))
        self.kept: dict = {}  # masks of dropout, which all passes over a chunk share

    def run(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Embeddings [T, B, C] -> outputs of the top layer [T, B, C]."""
        before = self.keys_and_values(self.memories[0])
        self.places = {source: Places(*pair, len(x)) for source, pair in before.items()}
        outputs = [self.run_chunk(part) for part in x.transpose(0, 1).split(self.chunk, dim=1)]
        for places in self.places.values():  # its history has the places: Python would never free them
            del places.token
        return torch.cat(outputs, dim=1).transpose(0, 1)

    def run_chunk(self, x: Tensor) -> Tensor:
        """Embeddings [B, n, C] -> outputs of the top layer [B, n, C]."""
        guess, y = torch.stack([x] * len(self.mixing)), x  # equation (1) if all layers did nothing
        self.kept.clear()
        for number in range(1, self.passes + 1):
            constant = not self.through and number < self.passes
            with torch.no_grad() if constant else nullcontext():
                y, guess = self.run_pass(x, guess)
        for source, pair in self.keys_and_values(guess).items():
            self.places[source].write(*pair)
        self.memories.append(guess)
        return y

    def run_pass(self, x: Tensor, guess: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings [B, n, C], memories of the chunk [G, B, n, C] -> outputs of the top layer [B, n, C], and these
        memories anew."""
        own = self.keys_and_values(guess[:, :, :-1])  # no token attends to itself
        states = [x]
        for layer, source, limits in zip(self.layers, self.sources, self.limits):
            states.append(self.layer_pass(layer, states[-1], self.places[source], own[source], limits))
        with no_autocast(x.device):  # a memory is as exact as the residual stream
            return states[-1], torch.stack(mix(self.mixing.to(x), states))

    def layer_pass(self, layer: FeedbackLayer, x: Tensor, places: Places, own: list[Tensor], limits: Limits) -> Tensor:
        """[B, n, C] -> [B, n, C]"""
        config, norms = layer.config, (layer.self_attn_layer_norm, layer.final_layer_norm)
        for norm, body in zip(norms, (self.attend, self.feed_forward)):
            y = body(layer, norm(x) if config.pre_norm else x, places, own, limits)
            x = x + self.dropout(y, config.dropout, layer, norm)
            if not config.pre_norm:
                x = norm(x)
        return x

    def attend(self, layer: FeedbackLayer, x: Tensor, places: Places, own: list[Tensor], limits: Limits) -> Tensor:
        heads, projections = layer.config.heads, layer.self_attn
        query = split_heads(projections.q_proj(x), heads).flatten(0, 1)
        bias = into_band(query @ limits.position, float("-inf"))
        kept = self.mask(bias, layer.config.attention_dropout, layer, projections)
        y = Attend.apply(query, bias, *own, kept, places.token, places, limits.width)
        return projections.out_proj(y.unflatten(0, (-1, heads)).transpose(1, 2).flatten(2))

    def feed_forward(self, layer: FeedbackLayer, x: Tensor, *unused) -> Tensor:
        hidden = ACTIVATIONS[layer.config.activation].forward(layer.fc1(x))
        return layer.fc2(self.dropout(hidden, layer.config.activation_dropout, layer, layer.fc2))

    def dropout(self, x: Tensor, rate: float, *place: torch.nn.Module) -> Tensor:
        kept = self.mask(x, rate, *place)
        return x if kept is None else x * kept

    def mask(self, like: Tensor, rate: float, *place: torch.nn.Module) -> Tensor | None:
        """The factors of the elements: 0 where they are dropped."""
        if not (rate and self.layers.training):
            return None
        if place not in self.kept:
            kept, scale = draw(like, rate)
            self.kept[place] = kept * scale
        return self.kept[place].to(like.dtype)

    def keys_and_values(self, memories: Tensor) -> dict:
        """Of memories [G, B, n, C], both [R, n, D], for each source."""
        made = keys_and_values(self.layers, self.sources, memories)
        return {source: [part.flatten(0, 1) for part in pair] for source, pair in made.items()}

    def final_memories(self, width: int, padding: Tensor | None = None) -> list[Tensor]:
        """As of `contracts.Recurrence`."""
        return [last_vectors(each, width, padding).detach() for each in torch.cat(self.memories, dim=2)]
