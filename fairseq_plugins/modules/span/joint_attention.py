"""Attention to a band of positions and to persistent vectors under one softmax, with a backward pass of its own.

The scores of both lie side by side in one tensor, the largest of a layer. Autograd would copy it to join them and again
to part them, and keep it twice for dropout and mask. `Context.attend` in `span_attention` computes the same plainly.

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
    """apply(start, query, keys, values, mask, general_keys, general_values, rate) -> [H, B, M, D]

    Args:
        start: what is added to the scores of positions [H, B, M, W]
        query: [H, B, M, D]; keys, values: [H, B, n, D]
        mask: [H, W], or None
        general_keys, general_values: [H, N, D], their factors sqrt(D) and sqrt(N) applied to the values only; or None
        rate: of dropout
    """

    @staticmethod
    def forward(ctx, start, query, keys, values, mask, general_keys, general_values, rate):
        with torch.autocast(query.device.type, enabled=False):
            weights = joint_scores(start, query, keys, general_keys).softmax(-1)
            keep, scale = draw(weights, rate) if rate else (None, 1.0)
            full = None if mask is None else spread(mask, query.size(2)).to(weights.dtype)
            dropped, general = drop(weights, keep, full, keys.size(2))
            y = torch.bmm(dropped.flatten(0, 1), values.flatten(0, 1)).view_as(query)
            if general_values is not None:
                rows(y).baddbmm_(rows(general), general_values)
            factor = scale if mask is None else scale / total_weight(weights, full)
            y.mul_(factor)
        ctx.scale = scale
        ctx.save_for_backward(query, keys, values, mask, general_keys, general_values, weights, keep, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        query, keys, values, mask, general_keys, general_values, weights, keep, y = ctx.saved_tensors
        positions, full, dmask, dgeneral_keys, dgeneral_values = keys.size(2), None, None, None, None
        factor = ctx.scale
        if mask is not None:
            full = spread(mask, query.size(2)).to(weights.dtype)
            total = total_weight(weights, full)
            factor = ctx.scale / total
        with torch.autocast(query.device.type, enabled=False):
            outer = dy * factor
            dropped, general = drop(weights, keep, full, positions)
            dvalues = torch.bmm(dropped.flatten(0, 1).transpose(1, 2), outer.flatten(0, 1)).view_as(values)
            if general_values is not None:
                dgeneral_values = torch.bmm(rows(general).transpose(1, 2), rows(outer))
            del dropped, general
            dweights = joint_products(outer, values, general_values)
            if keep is not None:
                dweights.mul_(keep)
            if mask is not None:
                dweights.sub_((dy * y).sum(-1, keepdim=True) / total)
                own = dweights[..., :positions]
                dmask = band((own * weights[..., :positions]).sum(1)).sum(1).to(mask.dtype)
                own.mul_(full.unsqueeze(1))
            dscores = aten._softmax_backward_data(dweights, weights, -1, weights.dtype)
            del dweights
            own, general = dscores[..., :positions], dscores[..., positions:]
            scaling = query.size(-1) ** -0.5
            dquery = torch.bmm(own.flatten(0, 1), keys.flatten(0, 1)).mul_(scaling).view_as(query)
            dkeys = torch.bmm(own.flatten(0, 1).transpose(1, 2), (query * scaling).flatten(0, 1)).view_as(keys)
            if general_keys is not None:
                rows(dquery).baddbmm_(rows(general), general_keys)
                dgeneral_keys = torch.bmm(rows(general).transpose(1, 2), rows(query))
        return band(own), dquery, dkeys, dvalues, dmask, dgeneral_keys, dgeneral_values, None


def rows(x: Tensor) -> Tensor:
    """[H, B, M, ...] -> a view [H, B * M, ...]"""
    return x.view(x.size(0), -1, x.size(-1)) if x.is_contiguous() else x.flatten(1, 2)


def spread(mask: Tensor, tokens: int) -> Tensor:
    """[H, W] -> [H, M, n], the mask of every token where it looks, zeros elsewhere"""
    full = mask.new_zeros(mask.size(0), tokens, mask.size(1) + tokens - 1)
    band(full).copy_(mask.unsqueeze(1))
    return full


def joint_scores(start: Tensor, query: Tensor, keys: Tensor, general_keys: Tensor | None) -> Tensor:
    """[H, B, M, n + N], -inf for positions that a token does not see"""
    positions = keys.size(2)
    scores = query.new_empty(*query.shape[:3], positions + (0 if general_keys is None else general_keys.size(1)))
    own = scores[..., :positions].fill_(float("-inf"))
    band(own).copy_(start)
    scaled = query * query.size(-1) ** -0.5
    own.flatten(0, 1).baddbmm_(scaled.flatten(0, 1), keys.flatten(0, 1).transpose(1, 2))
    if general_keys is not None:
        torch.bmm(rows(query), general_keys.transpose(1, 2), out=scores[..., positions:].flatten(1, 2))
    return scores


def joint_products(outer: Tensor, values: Tensor, general_values: Tensor | None) -> Tensor:
    """Products of [H, B, M, D] with all values -> [H, B, M, n + N]"""
    positions = values.size(2)
    products = outer.new_empty(*outer.shape[:3], positions + (0 if general_values is None else general_values.size(1)))
    torch.bmm(outer.flatten(0, 1), values.flatten(0, 1).transpose(1, 2), out=products[..., :positions].flatten(0, 1))
    if general_values is not None:
        torch.bmm(rows(outer), general_values.transpose(1, 2), out=products[..., positions:].flatten(1, 2))
    return products


def drop(weights: Tensor, keep: Tensor | None, full: Tensor | None, positions: int) -> tuple[Tensor, Tensor]:
    """The weights of positions and of persistent vectors, after dropout (not scaled) and mask."""
    dropped = weights if keep is None else weights * keep
    own, general = dropped[..., :positions], dropped[..., positions:]
    return own if full is None else own * full.unsqueeze(1), general


def total_weight(weights: Tensor, full: Tensor) -> Tensor:
    """What masked weights are divided by [H, B, M, 1]"""
    positions = full.size(-1)
    own = torch.einsum("hbmn,hmn->hbm", weights[..., :positions], full)
    return divisor(own + weights[..., positions:].sum(-1)).unsqueeze(-1)
