"""The Feedback Transformer as the paper writes it (Fan et al., 2020, section 3): slow and obvious, for autograd.

Read this first. The tests compare the engine with it.

T steps, B batch, C width, H heads, D width of a head, S memories, L layers, G memories a step.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.feedback.layer import AttentionProjections, FeedbackLayer


def feedback_reference(x: Tensor, layers: Sequence[FeedbackLayer], mixing: Tensor) -> Tensor:
    """Embeddings [T, B, C] -> outputs of the top layer [T, B, C]: no dropout, no encoder, no limit of the memory. Layer
    number i attends to memory i, or to memory 0 where G is 1; mixing [G, L + 1] has the coefficients of equation (1).
    """
    memories, outputs = [x.new_zeros(len(mixing), *x.shape[1:])], []  # m_0: zeros, which are attended to
    for x_t in x:
        states = [x_t]  # x_t^0 .. x_t^L, each [B, C]
        for i, layer in enumerate(layers):
            memory = torch.stack([m[min(i, len(mixing) - 1)] for m in memories], dim=1)  # [B, S, C]
            states.append(layer_step(layer, states[-1], memory))
        memories.append(torch.einsum("gl,lbc->gbc", mixing.to(x), torch.stack(states)))  # equation (1)
        outputs.append(states[-1])
    return torch.stack(outputs)


def layer_step(layer: FeedbackLayer, x: Tensor, memory: Tensor) -> Tensor:
    """One step of a layer: x [B, C], memory [B, S, C] -> output [B, C]. Residual branches around attention and the
    feed-forward sublayer, with LayerNorm before them (pre-norm) or after them (post-norm)."""
    activation = ACTIVATIONS[layer.config.activation].forward
    norm, last_norm = layer.self_attn_layer_norm, layer.final_layer_norm
    if layer.config.pre_norm:
        x = x + attend(layer.self_attn, norm(x), norm(memory), layer.config.heads)
        return x + layer.fc2(activation(layer.fc1(last_norm(x))))
    x = norm(x + attend(layer.self_attn, x, memory, layer.config.heads))
    return last_norm(x + layer.fc2(activation(layer.fc1(x))))


def attend(projections: AttentionProjections, x: Tensor, memory: Tensor, heads: int) -> Tensor:
    """Attention of one query [B, C] to the memories [B, S, C] -> [B, C]"""
    query = projections.q_proj(x).unflatten(-1, (heads, -1))  # [B, H, D]
    key, value = (p(memory).unflatten(-1, (heads, -1)) for p in (projections.k_proj, projections.v_proj))
    weights = (torch.einsum("bhd,bshd->bhs", query, key) * query.size(-1) ** -0.5).softmax(-1)
    return projections.out_proj(torch.einsum("bhs,bshd->bhd", weights, value).flatten(1))
