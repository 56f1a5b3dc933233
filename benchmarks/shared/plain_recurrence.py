"""A plain loop over time steps with all that the engine offers: dropout, an encoder, limits of a stream, decoding.

Autograd differentiates it. Tests compare the engine with it, and both with `feedback_reference`.

T steps, B batch, C width, H heads, D width of a head, S memories or source positions, L layers, G memories a step.
"""

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.adaptive_span import divisor
from fairseq_plugins.modules.common.dropout import StepDropout, kept_scale
from fairseq_plugins.modules.common.layers import ModuleList
from fairseq_plugins.modules.common.row_ends import last_vectors
from fairseq_plugins.modules.feedback.engine.state import no_autocast
from fairseq_plugins.modules.feedback.layer import AttentionProjections, FeedbackLayer
from fairseq_plugins.modules.feedback.memory import mix
from fairseq_plugins.modules.feedback.window import Limits

DRAWN_AT_ONCE = 32  # in step-by-step decoding, masks of dropout are drawn for so many steps at once


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, S, C] -> [B, H, S, D]"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class PlainRecurrence:
    """State of a Feedback Transformer between two time steps: the memories so far, and the encoder's output.

    It is a `contracts.Recurrence`.

    Args:
        layers: the stack, the lowest layer first.
        mixing: coefficients of the memories [G, L + 1].
        context: encoder output [B, S, context_dim], or None.
        context_padding: [B, S], True where the encoder's input is padding, or None.
        beam: how many neighbouring rows of the batch share one row of the context.
        limits: for a stream, how far back each layer looks; None: to the start.
        memories: for a stream, those of earlier blocks, G tensors [B, S, C].
    """

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
        self.layers, self.mixing, self.limits = layers, mixing, limits
        self.context, self.context_padding = (
            None if x is None else x.repeat_interleave(beam, dim=0) for x in (context, context_padding)
        )
        self.memories: list[Tensor] = []  # [G, B, C] for each time step
        self.padding: list[Tensor] = []  # [B] for each time step, True where the memory is of padding
        self.dropouts: dict[tuple[FeedbackLayer, nn.Module], StepDropout] = {}  # by the place where they are
        self.block = DRAWN_AT_ONCE
        if limits is not None:
            assert memories is not None, "a stream has memories from its start"
            self.memories += torch.stack(memories).unbind(2)
            self.padding += memories[0].new_zeros(memories[0].shape[:2], dtype=torch.bool).unbind(1)

    def run(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Embeddings [T, B, C] of T steps, padding [B, T] or None -> outputs of the top layer [T, B, C]."""
        self.block = len(x)
        padded = x.new_zeros(x.shape[:2], dtype=torch.bool) if padding is None else padding.t()
        return torch.stack([self.step(x_t, padded_t)[0] for x_t, padded_t in zip(x, padded)])

    def step(self, x: Tensor, padded: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """One embedding [B, C] -> output of the top layer [B, C], and its attention to the encoder [B, H, S] or None.
        padded [B] is True where the embedding is of padding."""
        never = x.new_zeros(len(x), dtype=torch.bool)
        if not self.memories:  # m_0: zeros, which are attended to
            self.memories.append(x.new_zeros(len(self.mixing), *x.shape))
            self.padding.append(never)
        memories, padding = torch.stack(self.memories, dim=2), torch.stack(self.padding, dim=1)
        states, attention = [x], None
        for i, layer in enumerate(self.layers):
            limits = self.limits[i] if self.limits else None
            seen = slice(None) if limits is None else slice(-limits.width, None)
            memory = memories[min(i, len(memories) - 1)]
            x, attention = self.layer_step(layer, x, memory[:, seen], padding[:, seen], limits)
            states.append(x)
        with no_autocast(x.device):  # a memory is as exact as the residual stream
            self.memories.append(torch.stack(mix(self.mixing.to(x), states)))
        self.padding.append(never if padded is None else padded)
        return x, attention

    def final_memories(self, width: int, padding: Tensor | None = None) -> list[Tensor]:
        """The last `width` memories of a stream, G tensors [B, width, C], without their history. The last padding[b]
        steps of row b do not count."""
        return [last_vectors(memories, width, padding).detach() for memories in torch.stack(self.memories, dim=2)]

    def layer_step(self, layer: FeedbackLayer, x: Tensor, memory: Tensor, padding: Tensor, limits: Limits | None):
        """x [B, C], memories that it sees [B, S, C] -> the layer's output [B, C], and its attention to the encoder
        [B, H, S] or None."""
        config, attention = layer.config, None
        norm, keys = layer.self_attn_layer_norm, memory
        if config.pre_norm:
            keys = norm(memory)
        x, _ = self.sublayer(layer, norm, x, lambda h: self.attend(layer.self_attn, h, keys, padding, layer, limits))
        if layer.encoder_attn is not None:
            assert layer.encoder_attn_layer_norm is not None
            assert self.context is not None, "the layer needs the output of the encoder"
            x, attention = self.sublayer(
                layer,
                layer.encoder_attn_layer_norm,
                x,
                lambda h: self.attend(layer.encoder_attn, h, self.context, self.context_padding, layer),
            )
        x, _ = self.sublayer(layer, layer.final_layer_norm, x, lambda h: (self.feed_forward(layer, h), None))
        return x, attention

    def sublayer(self, layer: FeedbackLayer, norm: nn.LayerNorm, x: Tensor, body):
        """body(input) -> (output, attention weights or None), with residual connection, dropout and LayerNorm around
        it."""
        pre_norm = layer.config.pre_norm
        y, attention = body(norm(x) if pre_norm else x)
        y = x + self.dropout(y, layer.config.dropout, layer, norm)
        return (y if pre_norm else norm(y)), attention

    def attend(
        self,
        projections: AttentionProjections,
        x: Tensor,
        source: Tensor,
        padding: Tensor | None,
        layer: FeedbackLayer,
        limits: Limits | None = None,
    ):
        """Multi-head attention of one query [B, C] to a source [B, S, C] -> output [B, C] and weights [B, H, S].
        padding [B, S] is True where the source is padding."""
        heads = layer.config.heads
        query = split_heads(projections.q_proj(x).unsqueeze(1), heads)
        key, value = (split_heads(p(source), heads) for p in (projections.k_proj, projections.v_proj))
        scores = query @ key.transpose(2, 3) * key.size(-1) ** -0.5
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None, :], float("-inf"))
        if limits is not None:
            scores = scores + query @ limits.position
        weights = scores.softmax(-1)
        if limits is not None and limits.mask is not None:
            masked = weights * limits.mask.unsqueeze(1)
            weights = masked / divisor(masked.sum(-1, keepdim=True))
        grows = limits is None and projections is layer.self_attn
        y = self.dropout(weights, layer.config.attention_dropout, layer, projections, grows) @ value
        return projections.out_proj(y.flatten(1)), weights.squeeze(2)

    def feed_forward(self, layer: FeedbackLayer, x: Tensor) -> Tensor:
        hidden = ACTIVATIONS[layer.config.activation].forward(layer.fc1(x))
        return layer.fc2(self.dropout(hidden, layer.config.activation_dropout, layer, layer.fc2))

    def dropout(self, x: Tensor, p: float, layer: FeedbackLayer, place: nn.Module, grows: bool = False) -> Tensor:
        """Dropout of x at one place of a layer. Masks are drawn as the fast engine draws them, many steps at once, so
        equal seeds give equal masks."""
        if not layer.training or not p:
            return x
        masks = self.dropouts.setdefault((layer, place), StepDropout(p, self.block, grows))
        return x * masks.mask(x) * kept_scale(p, x.device)

    def restart(self, rows: Tensor) -> None:
        """Start a new stream in these rows: their memories are zeros; rows [B] is True there."""
        self.memories = [m.masked_fill(rows.unsqueeze(1), 0) for m in self.memories]

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] of the batch as row i."""
        self.memories = [m.index_select(1, order) for m in self.memories]
        self.padding = [p.index_select(0, order) for p in self.padding]
        if self.context is not None:
            self.context = self.context.index_select(0, order)
        if self.context_padding is not None:
            self.context_padding = self.context_padding.index_select(0, order)
