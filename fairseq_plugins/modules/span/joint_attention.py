"""Attention to a span of positions and to persistent vectors under one softmax, with a backward pass written by hand.

The scores of both lie side by side in one tensor, the largest of a layer. Autograd would copy it to join them, copy it
again to split them, and save it twice, for dropout and for the mask. `attention.Context.attend` computes the same in
plain operations.

H heads, B batch, M block length, W span, n = W + M - 1 positions, N persistent vectors, D width of a head.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_plugins.modules.common.adaptive_span import divisor
from fairseq_plugins.modules.common.dropout import draw
from fairseq_plugins.modules.span.band import band

aten = torch.ops.aten


class JointAttention(torch.autograd.Function):
    """apply(start, query, keys, values, mask, persistent_keys, persistent_values, rate) -> [H, B, M, D]

    Args:
        start: scores of relative positions [H, B, M, W]
        query: [H, B, M, D]
        keys, values: [H, B, n, D]
        mask: soft spans [H, W], or None
        persistent_keys: key' of the persistent vectors [H, N, D], or None; see PersistentMemory
        persistent_values: their values, sqrt(N) value' [H, N, D], or None
        rate: probability of dropout
    """

    @staticmethod
    def forward(ctx, start, query, keys, values, mask, persistent_keys, persistent_values, rate):
        with torch.autocast(query.device.type, enabled=False):
            weights = joint_scores(start, query, keys, persistent_keys).softmax(-1)
            dropout_mask, scale = draw(weights, rate) if rate else (None, 1.0)
            full = None if mask is None else spread(mask, query.size(2)).to(weights.dtype)
            dropped, persistent = drop(weights, dropout_mask, full, keys.size(2))
            y = torch.bmm(dropped.flatten(0, 1), values.flatten(0, 1)).view_as(query)
            if persistent_values is not None:
                rows(y).baddbmm_(rows(persistent), persistent_values)
            factor = scale if full is None else scale / total_weight(weights, full)
            y.mul_(factor)
        ctx.scale = scale
        ctx.save_for_backward(query, keys, values, mask, persistent_keys, persistent_values, weights, dropout_mask, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        query, keys, values, mask, persistent_keys, persistent_values, weights, dropout_mask, y = ctx.saved_tensors
        positions, full, dmask, dpersistent_keys, dpersistent_values = keys.size(2), None, None, None, None
        factor = ctx.scale
        if mask is not None:
            full = spread(mask, query.size(2)).to(weights.dtype)
            total = total_weight(weights, full)
            factor = ctx.scale / total
        with torch.autocast(query.device.type, enabled=False):
            outer = dy * factor
            dropped, persistent = drop(weights, dropout_mask, full, positions)
            dvalues = torch.bmm(dropped.flatten(0, 1).transpose(1, 2), outer.flatten(0, 1)).view_as(values)
            if persistent_values is not None:
                dpersistent_values = torch.bmm(rows(persistent).transpose(1, 2), rows(outer))
            del dropped, persistent
            dweights = joint_products(outer, values, persistent_values)
            if dropout_mask is not None:
                dweights.mul_(dropout_mask)
            if full is not None:
                dweights.sub_((dy * y).sum(-1, keepdim=True) / total)
                own = dweights[..., :positions]
                dmask = band((own * weights[..., :positions]).sum(1)).sum(1).to(mask.dtype)
                own.mul_(full.unsqueeze(1))
            dscores = aten._softmax_backward_data(dweights, weights, -1, weights.dtype)
            del dweights
            own, persistent = dscores[..., :positions], dscores[..., positions:]
            scaling = query.size(-1) ** -0.5
            dquery = torch.bmm(own.flatten(0, 1), keys.flatten(0, 1)).mul_(scaling).view_as(query)
            dkeys = torch.bmm(own.flatten(0, 1).transpose(1, 2), (query * scaling).flatten(0, 1)).view_as(keys)
            if persistent_keys is not None:
                rows(dquery).baddbmm_(rows(persistent), persistent_keys)
                dpersistent_keys = torch.bmm(rows(persistent).transpose(1, 2), rows(query))
        return band(own), dquery, dkeys, dvalues, dmask, dpersistent_keys, dpersistent_values, None


def rows(x: Tensor) -> Tensor:
    """[H, B, M, ...] -> a view [H, B * M, ...]"""
    return x.view(x.size(0), -1, x.size(-1)) if x.is_contiguous() else x.flatten(1, 2)


def spread(mask: Tensor, tokens: int) -> Tensor:
    """A mask by distance [H, W] -> by absolute position [H, M, n], with zeros where a token does not look"""
    full = mask.new_zeros(mask.size(0), tokens, mask.size(1) + tokens - 1)
    band(full).copy_(mask.unsqueeze(1))
    return full


def joint_scores(start: Tensor, query: Tensor, keys: Tensor, persistent_keys: Tensor | None) -> Tensor:
    """Scores of positions and of persistent vectors [H, B, M, n + N], -inf for positions that a token does not see"""
    positions = keys.size(2)
    vectors = 0 if persistent_keys is None else persistent_keys.size(1)
    scores = query.new_empty(*query.shape[:3], positions + vectors)
    own = scores[..., :positions].fill_(float("-inf"))
    band(own).copy_(start)
    scaled = query * query.size(-1) ** -0.5
    own.flatten(0, 1).baddbmm_(scaled.flatten(0, 1), keys.flatten(0, 1).transpose(1, 2))
    if persistent_keys is not None:
        torch.bmm(rows(query), persistent_keys.transpose(1, 2), out=scores[..., positions:].flatten(1, 2))
    return scores


def joint_products(outer: Tensor, values: Tensor, persistent_values: Tensor | None) -> Tensor:
    """outer [H, B, M, D] -> its products with the values of positions and of persistent vectors [H, B, M, n + N]"""
    positions = values.size(2)
    vectors = 0 if persistent_values is None else persistent_values.size(1)
    products = outer.new_empty(*outer.shape[:3], positions + vectors)
    torch.bmm(outer.flatten(0, 1), values.flatten(0, 1).transpose(1, 2), out=products[..., :positions].flatten(0, 1))
    if persistent_values is not None:
        torch.bmm(rows(outer), persistent_values.transpose(1, 2), out=products[..., positions:].flatten(1, 2))
    return products


def drop(weights: Tensor, dropout_mask: Tensor | None, full: Tensor | None, positions: int) -> tuple[Tensor, Tensor]:
    """weights [H, B, M, n + N] -> those of positions [H, B, M, n] and of persistent vectors [H, B, M, N], after dropout
    without its scale, and after the mask"""
    dropped = weights if dropout_mask is None else weights * dropout_mask
    own, persistent = dropped[..., :positions], dropped[..., positions:]
    return own if full is None else own * full.unsqueeze(1), persistent


def total_weight(weights: Tensor, full: Tensor) -> Tensor:
    """weights [H, B, M, n + N] -> their divisor after the mask [H, B, M, 1]"""
    positions = full.size(-1)
    own = torch.einsum("hbmn,hmn->hbm", weights[..., :positions], full)
    return divisor(own + weights[..., positions:].sum(-1)).unsqueeze(-1)
