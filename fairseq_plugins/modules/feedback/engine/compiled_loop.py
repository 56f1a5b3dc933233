"""Decoding on a CPU, whose steps are computed by `step.c`.

B rows, C width, H heads, D width of a head, R = B * H, L layers, G memories a step.
"""

import copy
import ctypes
from ctypes import POINTER, Structure, c_double, c_int64, c_void_p
from itertools import repeat
from pathlib import Path

import torch
from torch import Tensor, nn

from fairseq_plugins.modules.common.compiled import PANEL, CLinear, fields, library, threads_for
from fairseq_plugins.modules.feedback.engine.attention import Attention, WindowAttention
from fairseq_plugins.modules.feedback.engine.backward import Projection
from fairseq_plugins.modules.feedback.engine.caches import FixedSource, Source
from fairseq_plugins.modules.feedback.engine.loop import Loop
from fairseq_plugins.modules.feedback.engine.memory_writer import MemoryWriter
from fairseq_plugins.modules.feedback.engine.sliding_cache import ByPosition
from fairseq_plugins.modules.feedback.engine.state import RecurrenceState
from fairseq_plugins.modules.feedback.layer import AttentionProjections, FeedbackLayer

SOURCE = Path(__file__).with_name("step.c")
GROUP = 32  # rows: with fewer, reading the weights takes longer than the products


def computes(state: RecurrenceState, like: Tensor) -> bool:
    """Whether `CompiledLoop` computes the steps of this state, for embeddings like [B, C]."""
    return (
        like.device.type == "cpu"
        and like.dtype is state.dtype
        and all(layer.config.activation == "relu" and not layer.training for layer in state.cast_layers)
        and type(state).new_mixture is RecurrenceState.new_mixture  # a subclass may have another equation
        and library(SOURCE, state.dtype) is not None
    )


def rows_of_group(rows: int, threads: int) -> int:
    """How many rows go through all layers together. Each thread takes as many groups, of about GROUP rows; fewer rows
    are one group, which the threads share."""
    groups = threads * round(rows / (threads * GROUP))
    return -(-rows // groups) if groups else rows


class CNorm(Structure):
    _fields_ = [*fields("weight bias", c_void_p), ("eps", c_double)]


class CSource(Structure):
    _fields_ = [
        *fields("keys values", c_void_p),
        *fields("key_row key_place value_row value_place end", c_int64),
    ]

    def show(self, source: Source) -> None:
        """Let it be where the source lies now."""
        self.keys, self.values = source.keys.data_ptr(), source.values.data_ptr()
        self.key_row, self.key_place, _ = source.keys.stride()
        self.value_row, self.value_place, _ = source.values.stride()
        self.end = source.end


class CAttention(Structure):
    _fields_ = [
        ("norm", CNorm),
        *((name, CLinear) for name in ("query", "out")),
        ("source", POINTER(CSource)),
        *fields("position span padding", c_void_p),
        *fields("places beam", c_int64),
        ("weights", c_void_p),
    ]


class CLayer(Structure):
    _fields_ = [
        *((name, CAttention) for name in ("memory", "context")),
        ("norm", CNorm),
        *((name, CLinear) for name in ("widen", "narrow")),
        ("has_context", c_int64),
    ]


class CWriter(Structure):
    _fields_ = [("linear", CLinear), ("sources", POINTER(POINTER(CSource))), *fields("count memory", c_int64)]


class CBuffers(Structure):
    _fields_ = fields("queries mixed hidden memories pairs scratch panels", c_void_p)


class CStep(Structure):
    _fields_ = [
        ("layers", POINTER(CLayer)),
        ("writers", POINTER(CWriter)),
        *fields("mixing states", c_void_p),
        ("buffers", POINTER(CBuffers)),
        *fields("first rows all_rows", c_int64),
        *fields("width heads head_dim depth writer_count memory_count pre_norm normalises", c_int64),
        ("eps", c_double),
        *fields("group threads", c_int64),
    ]


class CompiledLoop(Loop):
    """A loop without gradients and dropout, for states that `computes` allows."""

    def __init__(self, state: RecurrenceState, like: Tensor, capacity: int):
        state = copy.copy(state)
        state.layout = ByPosition  # as step.c reads them
        super().__init__(state, like, capacity)
        found = library(SOURCE, self.dtype)
        assert found is not None, "see `computes`"
        self.function, self.state = found.feedback_step, state
        self.kept: list[Tensor] = []  # the structures have only the addresses of these
        self.weights: dict[int, Tensor] = {}  # of each attention, by its identity
        self.sources = {id(source): CSource() for source in (*self.memory_sources(), *self.contexts)}
        self.prepare(len(like))

    def prepare(self, rows: int) -> None:
        """Make the buffers and the structures for so many rows."""
        self.refuse_other_rows(rows)
        self.kept = []
        state, layers = self.state, self.state.cast_layers
        config, memories, depth = layers[0].config, len(self.mixture.coefficients), len(layers)
        norm = state.memory_norm
        threads = threads_for(rows * config.embed_dim * config.ffn_dim)
        self.states = self.buffer(depth + 1, rows, config.embed_dim)
        group = rows_of_group(rows, threads)
        parts = zip(layers, self.memory_attentions, self.context_attentions or repeat(None))
        writers = [self.writer(memory, writer) for memory, writer in zip(state.projections, self.writers)]
        pairs = max(writer.linear.outputs for writer in writers)
        teams, members = (1, threads) if group == rows else (threads, 1)
        buffers = [self.buffers(group, members, pairs) for _ in range(teams)]
        self.own = CStep(
            layers=(CLayer * depth)(*(self.layer(*of_layer) for of_layer in parts)),
            writers=(CWriter * len(writers))(*writers),
            mixing=self.address(self.mixture.coefficients),
            states=self.states.data_ptr(),
            buffers=(CBuffers * len(buffers))(*buffers),
            rows=rows,
            all_rows=rows,
            width=config.embed_dim,
            heads=config.heads,
            head_dim=config.head_dim,
            depth=depth,
            writer_count=len(writers),
            memory_count=memories,
            pre_norm=config.pre_norm,
            normalises=norm is not None,
            eps=0 if norm is None else norm.eps,
            group=group,
            threads=threads,
        )
        self.show()

    def buffers(self, rows: int, threads: int, pairs: int) -> CBuffers:
        """For a group of so many rows that threads share; pairs: how many numbers a writer makes of a row."""
        config = self.state.cast_layers[0].config
        inner, width, hidden = config.heads * config.head_dim, config.embed_dim, config.ffn_dim
        of_a_row = {
            "queries": inner,
            "mixed": inner,
            "hidden": hidden,
            "memories": len(self.mixture.coefficients) * width,
            "pairs": pairs,
            "scratch": threads * width,
        }
        panels = self.buffer(rows + PANEL, max(inner, width, hidden))
        addresses = {name: self.address(self.buffer(rows, size)) for name, size in of_a_row.items()}
        return CBuffers(**addresses, panels=self.address(panels))

    def refuse_other_rows(self, rows: int) -> None:
        known = {len(source.keys) // self.heads for source in self.memory_sources()}
        known |= {len(source.keys) // self.heads * self.beam for source in self.contexts}
        if known != {rows}:
            raise RuntimeError(f"a step of {rows} rows does not go on with {max(known)} rows")

    def buffer(self, *shape: int) -> Tensor:
        return self.mixture.coefficients.new_empty(shape)

    def keep(self, x: Tensor) -> Tensor:
        """x with its rows side by side, which lives as long as the structures."""
        self.kept.append(x.detach().contiguous())
        return self.kept[-1]

    def address(self, x: Tensor | None) -> int | None:
        """That of x, which is kept."""
        return None if x is None else self.keep(x).data_ptr()

    def linear(self, layer: nn.Linear | Projection) -> CLinear:
        return CLinear.of(self.keep(layer.weight), None if layer.bias is None else self.keep(layer.bias))

    def norm(self, norm: nn.LayerNorm) -> CNorm:
        return CNorm(self.address(norm.weight), self.address(norm.bias), norm.eps)

    def layer(self, layer: FeedbackLayer, memory: Attention, context: Attention | None) -> CLayer:
        own = CLayer(norm=self.norm(layer.final_layer_norm), has_context=context is not None)
        own.widen, own.narrow = self.linear(layer.fc1), self.linear(layer.fc2)
        own.memory = self.attention(layer.self_attn, layer.self_attn_layer_norm, memory)
        if context is not None:
            assert layer.encoder_attn is not None and layer.encoder_attn_layer_norm is not None
            own.context = self.attention(layer.encoder_attn, layer.encoder_attn_layer_norm, context)
        return own

    def attention(self, projections: AttentionProjections, norm: nn.LayerNorm, attention: Attention) -> CAttention:
        """Its weights go to a buffer of the attention."""
        position = attention.position if isinstance(attention, WindowAttention) else None
        span = attention.mask if isinstance(attention, WindowAttention) else None
        own = CAttention(norm=self.norm(norm), source=ctypes.pointer(self.sources[id(attention.source)]))
        own.query, own.out = self.linear(projections.q_proj), self.linear(projections.out_proj)
        own.position = self.address(position)
        own.span = self.address(None if span is None else span.to(self.dtype))
        own.places = 0 if position is None else position.size(1)
        return own

    def writer(self, memory: int, writer: MemoryWriter) -> CWriter:
        pointers = (POINTER(CSource) * len(writer.sources))(
            *(ctypes.pointer(self.sources[id(source)]) for source in writer.sources)
        )
        linear = self.linear(self.state.projections[memory])
        return CWriter(linear=linear, sources=pointers, count=len(writer.sources), memory=memory)

    def show(self) -> None:
        """Let the structures say where keys and values lie now, with room for weights. To be called when one moved."""
        for source in (*self.memory_sources(), *self.contexts):
            self.sources[id(source)].show(source)
        for i, attention in enumerate(self.memory_attentions):
            self.show_attention(self.own.layers[i].memory, attention)
        for i, attention in enumerate(self.context_attentions):
            self.show_attention(self.own.layers[i].context, attention)

    def show_attention(self, own: CAttention, attention: Attention) -> None:
        source, size = attention.source, self.own.rows * self.heads
        own.beam, mask = attention.beam, source.mask if isinstance(source, FixedSource) else None
        own.padding = None if mask is None else mask.data_ptr()
        size *= own.places or source.keys.size(1)
        weights = self.weights.get(id(attention))
        if weights is None or weights.numel() < size:
            weights = self.weights[id(attention)] = self.buffer(size)
        own.weights = weights.data_ptr()

    @torch.no_grad()
    def step(self, x: Tensor) -> Tensor:
        if len(x) != self.own.rows:
            self.refuse_other_rows(len(x))
        if x.shape != self.states[0].shape:
            raise RuntimeError(f"a step takes embeddings {list(self.states[0].shape)}, not {list(x.shape)}")
        for source in self.memory_sources():
            keys = source.keys
            source.make_room()
            if source.keys is not keys:
                self.show()
            self.sources[id(source)].end = source.end
        self.states[0] = x
        self.function(ctypes.byref(self.own))
        for source in self.memory_sources():
            source.steps += 1
        return self.states[-1].clone()

    def reorder(self, order: Tensor) -> None:
        super().reorder(order)
        if len(order) == self.own.rows:
            self.show()
        else:
            self.prepare(len(order))

    def memory_weights(self) -> list[Tensor]:
        return [
            self.weights_of(attention, own.memory.places or attention.source.end - 1)
            for attention, own in zip(self.memory_attentions, self.own.layers[: self.own.depth])
        ]

    def context_weights(self) -> Tensor | None:
        if not self.context_attentions:
            return None
        return self.weights_of(self.context_attentions[-1], self.contexts[-1].keys.size(1))

    def weights_of(self, attention: Attention, places: int) -> Tensor:
        """The attention of the latest step [B, H, n]."""
        rows = self.own.rows * self.heads
        weights = self.weights[id(attention)][: rows * places].view(-1, attention.beam, places)
        return attention.merge_heads(weights).clone()
