"""Multi-head attention of each token to the W tokens before it (section 4.3 of the all-attention paper), and the ways
to add persistent vectors to it (section 5.3).

H heads, B batch, M block length, S maximum span, W span after trimming, N persistent vectors of a head, D width of a
head, C model width. In tensors that have a dimension for the heads, it comes first: [H, B, M, D].
"""

from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.modules.common.adaptive_span import ROOM, AdaptiveSpan, divisor
from fairseq_plugins.modules.common.checks import head_width
from fairseq_plugins.modules.common.cross_head import CrossHead
from fairseq_plugins.modules.common.dropout import Dropout
from fairseq_plugins.modules.common.relative_position import RelativePosition
from fairseq_plugins.modules.span.band import band, into_band
from fairseq_plugins.modules.span.joint_attention import JointAttention
from fairseq_plugins.modules.span.persistent_memory import PersistentMemory


@dataclass
class SpanConfig:
    """Sizes and rates that all layers of a stack share.

    Raises:
        ValueError: a size is too small, or the heads do not divide C
    """

    embed_dim: int  # C
    heads: int  # H
    span: int  # S
    head_dim: int = None  # type: ignore[assignment]  # D; None for C / H, which __post_init__ fills in
    ffn_dim: int = 0  # width of the feed-forward sublayer, if there is one
    persistent: int = 0  # N
    ramp: int | None = None  # width of the soft edge of adaptive spans; None for a fixed span
    initial_span: float = 0.0  # adaptive spans at the start, as a fraction of S
    trim_step: int = 64  # S - W is a multiple of this number
    pre_norm: bool = False  # a LayerNorm before each sublayer; else after it
    # positions are added to the values too (equations 4 and 13); the papers' code adds them to the keys only
    value_positions: bool = False
    dropout: float = 0.0  # of attention weights and of the feed-forward activations
    cross_head_p: float = 0.0  # probability of cross-head attention in training

    def __post_init__(self):
        if self.span < 1:
            raise ValueError(f"a span of {self.span} is too small")
        if self.persistent < 0:
            raise ValueError(f"{self.persistent} persistent vectors are too few")
        if self.ramp is not None and self.ramp < 1:
            raise ValueError(f"a ramp of {self.ramp} is too small")
        self.head_dim = head_width(self.embed_dim, self.heads, self.head_dim)


@dataclass(eq=False)
class Context:
    """The context of a block: keys and values of the tokens before it and in it. Each token sees the W before it.

    Args:
        keys, values: [H, B, W + M - 1, D]: of W tokens before the block, then of all its tokens but the last
        width: W
        position: learned relative positions
        mask: the soft span of each head [H, W], or None for all W tokens
        value_positions: positions are added to the values too
    """

    keys: Tensor
    values: Tensor
    width: int
    position: RelativePosition
    mask: Tensor | None
    value_positions: bool

    def scores(self, query: Tensor) -> Tensor:
        """query [H, B, M, D] -> scores [H, B, M, W + M - 1], -inf for positions that a token does not see."""
        query = query * query.size(-1) ** -0.5
        start = self.placed(self.position.scores(query, self.width))
        scores = torch.baddbmm(start.flatten(0, 1), query.flatten(0, 1), self.keys.flatten(0, 1).transpose(1, 2))
        return scores.view_as(start)

    def placed(self, scores: Tensor) -> Tensor:
        """Scores of distances [H, B, M, W], the last that of distance 1 -> [H, B, M, W + M - 1], at their positions"""
        return into_band(scores, float("-inf"))

    def attend(self, query: Tensor, persistent: PersistentMemory | None, dropout: Dropout) -> Tensor:
        """query [H, B, M, D] -> [H, B, M, D]. One softmax is over the positions and the persistent vectors, if
        given."""
        own, *others = self.weights(query, persistent)
        y = self.mix(dropout(own))
        return y + persistent.mix(dropout(*others)) if persistent else y

    def weights(self, query: Tensor, persistent: PersistentMemory | None) -> list[Tensor]:
        """query [H, B, M, D] -> weights of positions [H, B, M, W + M - 1] and, if given, of persistent vectors
        [H, B, M, N]"""
        scores = [self.scores(query)] + ([persistent.scores(query)] if persistent else [])
        own, *others = torch.cat(scores, dim=-1).softmax(-1).split([part.size(-1) for part in scores], dim=-1)
        if self.mask is None:
            return [own, *others]
        parts = [self.seen(own, self.mask), *others]
        total = divisor(sum(part.sum(-1, keepdim=True) for part in parts))
        return [part / total for part in parts]

    def seen(self, weights: Tensor, mask: Tensor) -> Tensor:
        """weights [H, B, M, W + M - 1] -> the same, masked by each head's span [H, W]"""
        tokens = weights.size(2)
        banded = into_band(mask.unsqueeze(1).expand(-1, tokens, -1), 0.0)
        return weights * banded.unsqueeze(1)

    def mix(self, weights: Tensor) -> Tensor:
        """weights [H, B, M, W + M - 1] -> weighted sum of the values [H, B, M, D]"""
        y = torch.bmm(weights.flatten(0, 1), self.values.flatten(0, 1)).view(*weights.shape[:-1], -1)
        return y + self.mix_positions(weights) if self.value_positions else y

    def mix_positions(self, weights: Tensor) -> Tensor:
        """As `mix`, of the vectors of the distances."""
        return band(weights.contiguous()) @ self.position.weight[:, -self.width :].t()


class JoinedContext(Context):
    """A context that saves less for the backward pass. It has no positions on values."""

    def attend(self, query, persistent, dropout):
        if torch.compiler.is_compiling():  # it cannot trace a backward pass that writes into views
            return super().attend(query, persistent, dropout)
        start = self.position.scores(query * query.size(-1) ** -0.5, self.width)
        key = value = query.new_empty(len(query), 0, query.size(-1))
        if persistent:
            key, value = persistent.key.to(query.dtype), (persistent.value * persistent.size**0.5).to(query.dtype)
        return JointAttention.apply(start, query, self.keys, self.values, self.mask, key, value, dropout.rate)


class KVCache(Context):
    """The KV cache of the last W tokens, for decoding: a ring buffer.

    Keys and values [H, B, W, D] stay in their places until new ones overwrite the oldest. So the place of each distance
    moves by one at every step.
    """

    steps = 0

    def rotated(self, x: Tensor) -> Tensor:
        """x [..., W], sorted by distance, the last column that of distance 1 -> the same in the order of the buffer"""
        return x.roll(self.steps % self.width, -1)

    def placed(self, scores):
        return self.rotated(scores)

    def seen(self, weights, mask):
        return weights * self.rotated(mask)[:, None, None]

    def mix_positions(self, weights):
        return weights @ self.rotated(self.position.weight[:, -self.width :]).t()

    def append(self, key: Tensor, value: Tensor) -> None:
        """Overwrite the oldest key and value by these [H, B, 1, D]."""
        place = self.steps % self.width
        self.keys[:, :, place] = key.squeeze(2)
        self.values[:, :, place] = value.squeeze(2)
        self.steps += 1

    def reorder(self, order: Tensor) -> None:
        self.keys, self.values = (x.index_select(1, order) for x in (self.keys, self.values))


ContextT = TypeVar("ContextT", bound=Context)
SHORTEST_PIECE = 32  # tokens


class SpanAttention(nn.Module):
    """Attention to the context alone.

    A block that is much longer than the span is cut into pieces about as long as the span, which are computed side by
    side. In one piece, most of the scores would be of tokens further apart than the span, and of no use.
    """

    def __init__(self, config: SpanConfig):
        super().__init__()
        self.config = config
        self.context_type = Context if config.value_positions else JoinedContext
        self.context_heads = self.heads_for_context(config)
        width, inner = config.embed_dim, self.context_heads * config.head_dim
        self.q_proj = nn.Linear(width, config.heads * config.head_dim, bias=False)
        self.k_proj = nn.Linear(width, inner, bias=False)
        self.v_proj = nn.Linear(width, inner, bias=False)
        self.out_proj = nn.Linear(config.heads * config.head_dim, width, bias=False)
        self.dropout = Dropout(config.dropout)
        self.cross_head = CrossHead(config.heads, config.cross_head_p)
        self.span = None
        if config.ramp is not None:
            self.span = AdaptiveSpan(
                self.context_heads, config.span, config.ramp, config.initial_span, config.trim_step
            )

    def heads_for_context(self, config: SpanConfig) -> int:
        """How many heads attend to the context."""
        return config.heads

    def width(self) -> int:
        """W: how many tokens back the widest head sees"""
        return self.config.span - (self.span.trim_length() if self.span else 0)

    def memory_length(self, width: int) -> int:
        """How many tokens go to the next block: the W that are seen, and room for the span to grow."""
        return min(self.config.span, width + ROOM) if self.span else self.config.span

    def heads(self, x: Tensor) -> Tensor:
        """[B, M, H * D] -> a view [H, B, M, D]"""
        head_dim = self.config.head_dim
        return x.view(*x.shape[:-1], x.size(-1) // head_dim, head_dim).permute(2, 0, 1, 3)

    def forward(self, x: Tensor, memory: Tensor, position: RelativePosition) -> Tensor:
        """The block x [B, M, C], and the tokens before it [B, W, C] -> [B, M, C]. All heads and layers share the
        positions."""
        tokens, width = x.size(1), memory.size(1)
        query = self.heads(self.q_proj(x)).contiguous()
        # memory and block are projected apart, because the memory needs no gradient
        keys, values = (
            torch.cat([self.heads(project(memory)), self.heads(project(x[:, :-1]))], dim=2)
            for project in (self.k_proj, self.v_proj)
        )
        piece = max(width, SHORTEST_PIECE)
        if tokens >= 2 * piece:
            query = overlapping(query, piece, piece)
            keys, values = (overlapping(tensor, width + piece - 1, piece) for tensor in (keys, values))
        y = self.crossed(query, self.context(keys, values, width, position, self.context_type))
        return self.merge_heads(y.view(len(y), len(x), -1, y.size(-1))[:, :, :tokens])

    def joint_memory(self) -> PersistentMemory | None:
        """The persistent vectors that share a softmax with the context, or None."""
        return None

    def context(
        self, keys: Tensor, values: Tensor, width: int, position: RelativePosition, kind: type[ContextT]
    ) -> ContextT:
        """A context of this type. The other arguments are those of Context."""
        mask = self.span.mask()[:, -width:] if self.span else None
        return kind(keys, values, width, position, mask, self.config.value_positions)

    def merge_heads(self, y: Tensor) -> Tensor:
        """[H, B, M, D] -> [B, M, C]"""
        return self.out_proj(y.permute(1, 2, 0, 3).flatten(2))

    def attend(self, query: Tensor, context: Context) -> Tensor:
        """query [H, B, M, D] -> the outputs of the heads [H, B, M, D]"""
        return context.attend(query, self.joint_memory(), self.dropout)

    def crossed(self, query: Tensor, context: Context) -> Tensor:
        """`attend` with cross-head attention: the queries of a head may look at the keys, values, persistent vectors
        and span of another head."""
        return self.cross_head(lambda visitors: self.attend(visitors, context), query)

    def start(self, memory: Tensor, position: RelativePosition) -> KVCache:
        """The state before the first step of decoding, after the W tokens of a memory [B, W, C]."""
        keys, values = (self.heads(project(memory)).contiguous() for project in (self.k_proj, self.v_proj))
        return self.context(keys, values, memory.size(1), position, KVCache)

    def step(self, cache: KVCache, x: Tensor) -> Tensor:
        """One token of each row of the batch [B, C] -> [B, C]. The steps that follow see the token."""
        x = x.unsqueeze(1)
        y = self.merge_heads(self.attend(self.heads(self.q_proj(x)).contiguous(), cache))
        cache.append(self.heads(self.k_proj(x)), self.heads(self.v_proj(x)))
        return y.squeeze(1)


class AllAttention(SpanAttention):
    """all-attn: one softmax over the context and the persistent vectors of each head (equation 13)."""

    def __init__(self, config):
        super().__init__(config)
        self.persistent = PersistentMemory(config.heads, config.persistent, config.head_dim)

    def joint_memory(self):
        return self.persistent


class AttnSplit(AllAttention):
    """attn-split: one softmax over the context and another over the persistent vectors. The results are added."""

    def joint_memory(self):
        return None

    def attend(self, query, context):
        return super().attend(query, context) + look_up(self.persistent, query, self.dropout)


class HeadSplit(SpanAttention):
    """head-split: the first half of the heads attends to the context, the other half to persistent vectors.

    The first half has no persistent vectors, as in the paper. The other half has no key and value matrices, which the
    paper does not say: with them the large model would have 76.1M parameters, here it has 66.7M.
    """

    def __init__(self, config):
        super().__init__(config)
        self.persistent = PersistentMemory(config.heads - self.context_heads, config.persistent, config.head_dim)

    def heads_for_context(self, config):
        if config.heads % 2:
            raise ValueError(f"head-split needs an even number of heads, not {config.heads}")
        return config.heads // 2

    def attend(self, query, context):
        looking_back, looking_up = query.split([self.context_heads, len(query) - self.context_heads])
        return torch.cat([super().attend(looking_back, context), look_up(self.persistent, looking_up, self.dropout)])


class SingleHead(SpanAttention):
    """single-head: as attn-split, but one head, as wide as all heads together, attends to the persistent vectors."""

    def __init__(self, config):
        super().__init__(config)
        self.persistent = PersistentMemory(1, config.persistent, config.heads * config.head_dim)

    def attend(self, query, context):
        return super().attend(query, context) + self.attend_persistent(query)

    def crossed(self, query, context):
        attend = super().attend
        return self.cross_head(lambda visitors: attend(visitors, context), query) + self.attend_persistent(query)

    def attend_persistent(self, query: Tensor) -> Tensor:
        """query [H, B, M, D] -> the output of the single head, cut into heads [H, B, M, D]"""
        heads, batch, tokens, head_dim = query.shape
        whole = query.permute(1, 2, 0, 3).reshape(1, batch, tokens, heads * head_dim)
        return look_up(self.persistent, whole, self.dropout).view(batch, tokens, heads, head_dim).permute(2, 0, 1, 3)


def overlapping(x: Tensor, length: int, step: int) -> Tensor:
    """Cut x [H, B, T, D] into overlapping pieces [H, B * pieces, length, D]. One begins every `step` tokens; behind the
    end of x they are filled with zeros."""
    pieces = -(-(x.size(2) - (length - step)) // step)
    x = F.pad(x, (0, 0, 0, (pieces - 1) * step + length - x.size(2)))
    return x.unfold(2, length, step).transpose(3, 4).flatten(1, 2)


def look_up(persistent: PersistentMemory, query: Tensor, dropout: Dropout) -> Tensor:
    """Attention to persistent vectors alone: query [H, B, M, D] -> [H, B, M, D]"""
    return persistent.mix(dropout(persistent.scores(query).softmax(-1)))
