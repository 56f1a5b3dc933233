"""Keys and values of a block that is trained in chunks, and the attention of a chunk to them (see `chunks`).

All keys and values of a source lie in one buffer. An attention reads the places before its chunk where they are, and
its backward pass leaves them the factors of their gradients. The gradients of a chunk's places are made when all later
attentions have been differentiated: each takes the *link* that the last writing has returned, an empty tensor, so
autograd differentiates a writing after all of them.

B streams, H heads, R = B * H rows, D width of a head, S places, n tokens of a chunk, W places that a layer sees, E
attentions of a window.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Places:
    """Keys and values of one source, [R, S, D].

    Args:
        like: keys [R, n, D]
        capacity: S

    Attributes:
        end: how many places are written
        factors: of gradients, by the window [first, end) of their attention
    """

    def __init__(self, like: Tensor, capacity: int):
        self.keys, self.values = (like.new_empty(like.size(0), capacity, like.size(2)) for _ in range(2))
        self.end = 0
        self.factors: dict[tuple[int, int], list[tuple[Tensor, ...]]] = {}

    def window(self, first: int, end: int) -> tuple[Tensor, Tensor]:
        """Keys and values, both [R, end - first, D]."""
        return self.keys[:, first:end], self.values[:, first:end]

    def gradients(self, first: int, end: int) -> tuple[Tensor, Tensor]:
        """Of the keys and values of places that no attention will be differentiated with any more: zeros where none
        was."""
        shape = (self.keys.size(0), end - first, self.keys.size(2))
        d_keys, d_values = self.keys.new_zeros(shape), self.keys.new_zeros(shape)
        for (low, high), factors in self.factors.items():
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


def taken(ctx) -> Places:
    """The places of a writing or an attention, which it gives away: their factors are used once.

    Raises:
        RuntimeError: it has been differentiated before
    """
    places, ctx.places = ctx.places, None
    if places is None:
        raise RuntimeError("a block that is trained in chunks can be differentiated only once; run it again")
    return places


class Write(torch.autograd.Function):
    """Keys and values [R, n, D] become the next places. The link of the writing before -> that of this one."""

    @staticmethod
    def forward(ctx, keys, values, link, places: Places):
        ctx.places, ctx.place = places, (places.end, places.end + keys.size(1))
        for part, written in zip(places.window(*ctx.place), (keys, values)):
            part.copy_(written)
        places.end = ctx.place[1]
        return link.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, d_link):
        return *taken(ctx).gradients(*ctx.place), d_link, None


class Attend(torch.autograd.Function):
    """Attention of queries [R, n, D] to the W places before the chunk and to own keys and values [R, n - 1, D], with
    ``bias`` [R, n, W + n - 1] added to the scores, and the weights times ``mask``, of the same shape, times ``scale``;
    None: no dropout."""

    @staticmethod
    def forward(ctx, query, bias, own_keys, own_values, mask, scale, link, places: Places, width: int):
        window = places.end - width, places.end
        keys, values = places.window(*window)
        scores = torch.cat([torch.bmm(query, keys.transpose(1, 2)), torch.bmm(query, own_keys.transpose(1, 2))], -1)
        weights = scores.add_(bias).softmax(-1)
        dropped = weights if mask is None else (weights * mask).mul_(scale)
        ctx.save_for_backward(query, own_keys, own_values, weights, dropped, mask)
        ctx.places, ctx.window, ctx.width, ctx.scale = places, window, width, scale
        return torch.bmm(dropped[..., :width], values) + torch.bmm(dropped[..., width:], own_values)

    @staticmethod
    @once_differentiable
    def backward(ctx, d_y):
        query, own_keys, own_values, weights, dropped, mask = ctx.saved_tensors
        query, d_y = query.detach(), d_y.detach()  # the history of both holds the places, which are to hold them
        places, width = taken(ctx), ctx.width
        keys, values = places.window(*ctx.window)
        d_weights = torch.cat([torch.bmm(d_y, values.transpose(1, 2)), torch.bmm(d_y, own_values.transpose(1, 2))], -1)
        if mask is not None:
            d_weights.mul_(mask).mul_(ctx.scale)
        d_scores = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)
        places.factors.setdefault(ctx.window, []).append((query, d_scores[..., :width], dropped[..., :width], d_y))
        own = d_scores[..., width:]
        d_query = torch.bmm(d_scores[..., :width], keys) + torch.bmm(own, own_keys)
        d_own_values = torch.bmm(dropped[..., width:].transpose(1, 2), d_y)
        d_own_keys = torch.bmm(own.transpose(1, 2), query)
        return d_query, d_scores, d_own_keys, d_own_values, None, None, d_y.new_zeros(0), None, None
