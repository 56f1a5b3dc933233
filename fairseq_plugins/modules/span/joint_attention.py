"""Attention to a span of positions and to persistent vectors under one softmax, with a backward pass written by hand.

The scores of both lie side by side in one tensor, the largest of a layer. Autograd would copy it to join them, copy it
again to split them, and save it twice, for dropout and for the mask. Here only the weights are saved, and a minus marks
those that dropout drops. A CPU takes a part of the heads and streams at a time: from one product to the next, the
scores of a part do not leave its cache. `attention.Context.attend` computes the same in plain operations.

H heads, B batch, M block length, W span, n = W + M - 1 positions, N persistent vectors, D width of a head, K = N + n
columns and some more, which are empty.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_plugins.modules.common.adaptive_span import divisor
from fairseq_plugins.modules.common.dropout import draw_signs, kept_scale
from fairseq_plugins.modules.span.band import band

aten = torch.ops.aten
SCORES = 2**21  # of a part, on a CPU
COLUMNS = 16  # K is a multiple of it: products write faster into rows that begin with a line of the cache


class JointAttention(torch.autograd.Function):
    """apply(start, query, keys, values, mask, persistent_keys, persistent_values, rate) -> [H, B, M, D]

    Args:
        start: scores of relative positions [H, B, M, W]
        query: [H, B, M, D]
        keys, values: [H, B, n, D]
        mask: soft spans [H, W], or None
        persistent_keys: key' of the persistent vectors [H, N, D], with N = 0 if there are none; see PersistentMemory
        persistent_values: their values, sqrt(N) value' [H, N, D]
        rate: probability of dropout
    """

    @staticmethod
    def forward(ctx, start, query, keys, values, mask, persistent_keys, persistent_values, rate):
        shape, full = (persistent_keys.size(1), keys.size(2)), spread(mask, query)
        weights, y = joint(query, *shape), query.new_empty(query.shape)
        ctx.scale = kept_scale(rate, query.device) if rate else 1.0
        with torch.autocast(query.device.type, enabled=False):
            for part in parts(weights):
                heads, _ = part
                kept, mixed = weights[part], y[part]
                torch.softmax(joint_scores(start[part], query[part], keys[part], persistent_keys[heads]), -1, out=kept)
                total = 1 if full is None else total_weight(kept, full[heads], *shape)
                if rate:
                    kept = draw_signs(kept, rate).relu()
                persistent, own = split(kept, *shape)
                own = own if full is None else own * full[heads].unsqueeze(1)
                torch.bmm(flat(own), flat(values[part]), out=flat(mixed))
                rows(mixed).baddbmm_(rows(persistent), persistent_values[heads])
                mixed *= ctx.scale / total
        of_mask = (None, None) if mask is None else (mask, y)
        ctx.save_for_backward(query, keys, values, persistent_keys, persistent_values, weights, *of_mask)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        query, keys, values, persistent_keys, persistent_values, weights, mask, y = ctx.saved_tensors
        shape, full = (persistent_keys.size(1), keys.size(2)), spread(mask, query)
        scaling = query.size(-1) ** -0.5
        dstart = query.new_empty(*query.shape[:3], keys.size(2) - query.size(2) + 1)
        dquery, dkeys, dvalues = (x.new_empty(x.shape) for x in (query, keys, values))
        # sums over the parts, in float32 at least
        dmask, dpersistent_keys, dpersistent_values = (
            torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))
            for x in (dstart[:, 0, 0], persistent_keys, persistent_values)
        )
        with torch.autocast(query.device.type, enabled=False):
            for part in parts(weights):
                heads, _ = part
                undropped, kept = weights[part].abs(), weights[part].relu()
                total = 1 if full is None else total_weight(undropped, full[heads], *shape)
                outer = dy[part] * (ctx.scale / total)
                persistent, own = split(kept, *shape)
                own = own if full is None else own * full[heads].unsqueeze(1)
                torch.bmm(flat(own).transpose(1, 2), flat(outer), out=flat(dvalues[part]))
                dpersistent_values[heads] += torch.bmm(rows(persistent).transpose(1, 2), rows(outer))
                dweights = joint_products(outer, values[part], persistent_values[heads])
                dweights = aten.threshold_backward(dweights, kept, 0)
                if full is not None:
                    dweights -= (dy[part] * y[part]).sum(-1, keepdim=True) / total
                    (_, own), (_, before) = split(dweights, *shape), split(undropped, *shape)
                    dmask[heads] += band((own * before).sum(1)).sum(1)
                    own *= full[heads].unsqueeze(1)
                dscores = aten._softmax_backward_data(dweights, undropped, -1, weights.dtype)
                persistent, own = split(dscores, *shape)
                dstart[part] = band(own)
                torch.bmm(flat(own), flat(keys[part]), out=flat(dquery[part])).mul_(scaling)
                rows(dquery[part]).baddbmm_(rows(persistent), persistent_keys[heads])
                torch.bmm(flat(own).transpose(1, 2), flat(query[part] * scaling), out=flat(dkeys[part]))
                dpersistent_keys[heads] += torch.bmm(rows(persistent).transpose(1, 2), rows(query[part]))
        of_vectors = dpersistent_keys.to(query.dtype), dpersistent_values.to(query.dtype)
        return dstart, dquery, dkeys, dvalues, None if mask is None else dmask.to(mask.dtype), *of_vectors, None


def parts(weights: Tensor) -> Iterator[tuple[slice, slice]]:
    """Slices of the heads and streams of [H, B, M, K], all in one if not on a CPU. A part has all streams of some
    heads, or some streams of one head."""
    heads, streams, tokens, columns = weights.shape
    most = SCORES // (tokens * columns) if weights.device.type == "cpu" else heads * streams
    of_heads, of_streams = max(most // streams, 1), min(max(most, 1), streams)
    for head in range(0, heads, of_heads):
        for stream in range(0, streams, of_streams):
            yield slice(head, head + of_heads), slice(stream, stream + of_streams)


def joint(query: Tensor, vectors: int, positions: int) -> Tensor:
    """A new tensor [H, B, M, K] for a query [H, B, M, D]."""
    return query.new_empty(*query.shape[:3], -(-(vectors + positions) // COLUMNS) * COLUMNS)


def split(x: Tensor, vectors: int, positions: int) -> tuple[Tensor, Tensor]:
    """[H, B, M, K] -> views of persistent vectors [H, B, M, N] and of positions [H, B, M, n]"""
    return x[..., :vectors], x[..., vectors : vectors + positions]


def flat(x: Tensor) -> Tensor:
    """[H, B, ...] -> a view [H * B, ...]"""
    return x.flatten(0, 1)


def rows(x: Tensor) -> Tensor:
    """[H, B, M, ...] -> a view [H, B * M, ...]"""
    return x.flatten(1, 2)


def spread(mask: Tensor | None, query: Tensor) -> Tensor | None:
    """A mask by distance [H, W] -> by absolute position [H, M, n], with zeros where a token does not look. M and the
    type are those of the query [H, B, M, D]."""
    if mask is None:
        return None
    tokens = query.size(2)
    full = query.new_zeros(mask.size(0), tokens, mask.size(1) + tokens - 1)
    band(full).copy_(mask.unsqueeze(1))
    return full


def joint_scores(start: Tensor, query: Tensor, keys: Tensor, persistent_keys: Tensor) -> Tensor:
    """Scores of persistent vectors and positions [H, B, M, K], -inf for what a token does not see"""
    shape = persistent_keys.size(1), keys.size(2)
    scores = joint(query, *shape)
    persistent, own = split(scores, *shape)
    scores[..., shape[0] :] = float("-inf")
    band(own).copy_(start)
    flat(own).baddbmm_(flat(query * query.size(-1) ** -0.5), flat(keys).transpose(1, 2))
    torch.bmm(rows(query), persistent_keys.transpose(1, 2), out=rows(persistent))
    return scores


def joint_products(outer: Tensor, values: Tensor, persistent_values: Tensor) -> Tensor:
    """outer [H, B, M, D] -> its products with the values of persistent vectors and positions [H, B, M, K]"""
    shape = persistent_values.size(1), values.size(2)
    products = joint(outer, *shape)
    persistent, own = split(products, *shape)
    products[..., sum(shape) :] = 0
    torch.bmm(flat(outer), flat(values).transpose(1, 2), out=flat(own))
    torch.bmm(rows(outer), persistent_values.transpose(1, 2), out=rows(persistent))
    return products


def total_weight(weights: Tensor, full: Tensor, vectors: int, positions: int) -> Tensor:
    """weights [H, B, M, K] -> their divisor after the mask [H, B, M, 1]"""
    persistent, own = split(weights, vectors, positions)
    return divisor(torch.einsum("hbmn,hmn->hbm", own, full) + persistent.sum(-1)).unsqueeze(-1)
