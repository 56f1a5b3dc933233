"""Attention maps of the heads of a trained model: of layers with span attention, of a Feedback model's layers, and of a
Transformer-XL's.

H heads, M query tokens, S columns of distances, N persistent vectors of a head.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.modules.feedback.engine.recurrence import EagerRecurrence
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.span.attention import Context, SpanAttention
from fairseq_plugins.modules.span.band import band
from fairseq_plugins.modules.transformer_xl.attention import XLAttention
from fairseq_plugins.tools.lib.load import load

BLOCK = 512


@dataclass
class HeadMap:
    """The attention of one head. Each row of the two tensors together sums to one.

    Attributes:
        layer, head: counted from 1
        context: [M, S], weights of the tokens before, the nearest last; in a Feedback model, of their memories
        persistent: [M, N], weights of persistent vectors
        nearest: distance of the last column: 0 where a token sees itself, else 1
    """

    layer: int
    head: int
    context: Tensor
    persistent: Tensor
    nearest: int = 1

    @property
    def context_share(self) -> float:
        """The fraction of the attention that goes to the context."""
        return float(self.context.sum() / (self.context.sum() + self.persistent.sum()))

    @property
    def distance(self) -> float:
        """How far back the head looks in the context: the mean over its weights, in tokens."""
        distances = torch.arange(self.context.size(1), dtype=self.context.dtype).flip(0) + self.nearest
        return float((self.context @ distances).sum() / self.context.sum())


def attention_maps(
    checkpoint: Path, data: Path | None, split: str, tokens: int
) -> tuple[list[HeadMap], list[list[float]]]:
    """Maps of all heads for ``tokens`` tokens of a split, and of a Feedback model the weights of the layers in its
    memories [G, L + 1], else []. As many tokens as the longest span are read before the tokens.

    Raises:
        UserError: the checkpoint is of a model without such attention, or the split is too short
    """
    model, _, task = load(checkpoint, {"data": str(data)} if data else {}, cpu=True)
    record = recorder_of(model)
    if record is None or not hasattr(model, "memory_length"):  # agents have none
        raise UserError(
            f"{checkpoint} has no attention that this can draw; give a language model with span attention"
            " (--arch all_attention_lm, span_transformer_lm), with a feedback memory (--arch feedback_lm), or a"
            " Transformer-XL (--arch transformer_xl_lm)."
        )
    task.load_dataset(split)
    dataset, before = task.dataset(split), model.memory_length
    if len(dataset) < before + tokens:
        raise UserError(f"split {split} has {len(dataset)} tokens, fewer than {before + tokens}; lower --tokens.")
    starts = [*range(0, before, BLOCK), before]
    cuts = [(start, end - start) for start, end in zip(starts, [*starts[1:], before + tokens])]
    memory = StreamMemory()
    with torch.no_grad():
        for (block,) in dataset.blocks(1, 1, cuts):
            if block.start == before:
                recorder = record(model)
            model(dataset[block]["net_input"]["src_tokens"], memory=memory)
        layers = recorder.maps(before)
    maps = [
        HeadMap(number, head + 1, context[head], persistent[head], recorder.nearest)
        for number, (context, persistent) in enumerate(layers, 1)
        for head in range(len(context))
    ]
    return maps, recorder.memory_weights()


def recorder_of(model: nn.Module):
    """The class that records the attention of a model, or None."""
    kinds = {FeedbackStream: FeedbackRecorder, SpanAttention: SpanRecorder, XLAttention: XLRecorder}
    return next((kinds[kind] for kind in kinds if modules_of(model, kind)), None)


def modules_of(model: nn.Module, kind: type) -> list:
    return [module for module in model.modules() if isinstance(module, kind)]


class FeedbackRecorder:
    """Records the attention of the layers of a Feedback model to the memory, from now on."""

    nearest = 1

    def __init__(self, model: nn.Module):
        self.stack = modules_of(model, FeedbackStream)[0].stack
        self.weights: list[list[Tensor]] = [[] for _ in self.stack.layers]  # of each layer for each step [H, W]
        self.stack.engine = self._engine

    def _engine(self, *args):
        return _RecordingRecurrence(self.weights, *args)

    def maps(self, span: int) -> list[tuple[Tensor, Tensor]]:
        """Of each layer the weights [H, M, S] of the first stream, and no persistent vectors [H, M, 0]."""
        layers = (torch.stack(steps, dim=1) for steps in self.weights)
        return [(F.pad(maps, (span - maps.size(-1), 0)), maps[..., :0]) for maps in layers]

    def memory_weights(self) -> list[list[float]]:
        """The share of each layer in each of the G memories [G, L + 1]."""
        return self.stack.memory.layer_weights()


class _RecordingRecurrence(EagerRecurrence):
    """A recurrence that takes a block step by step and keeps the attention weights of each layer."""

    def __init__(self, weights: list[list[Tensor]], *args):
        super().__init__(*args)
        self.weights = weights

    def run(self, x, padding=None):
        self.record_steps(x[0], len(x))
        for x_t in x:
            self.step(x_t)
            for steps, weights in zip(self.weights, self.loop.memory_weights(), strict=True):
                steps.append(weights[0])
        return self.recorded(x)


class SpanRecorder:
    """Records the attention of all layers with span attention, from now on."""

    nearest = 1

    def __init__(self, model: nn.Module):
        self.layers = [_LayerRecorder(layer) for layer in modules_of(model, SpanAttention)]

    def maps(self, span: int) -> list[tuple[Tensor, Tensor]]:
        """Of each layer the weights [H, M, S] and [H, M, N] of the first stream."""
        return [layer.maps(span) for layer in self.layers]

    def memory_weights(self) -> list[list[float]]:
        return []


class _LayerRecorder:
    """Stores the last inputs of a layer's attention, to compute its weights from them."""

    def __init__(self, attention: SpanAttention):
        self.attention = attention
        self.hook = attention.register_forward_pre_hook(self._store)

    def _store(self, attention, given):
        self.given = given

    @torch.no_grad()
    def maps(self, span: int) -> tuple[Tensor, Tensor]:
        """Weights [H, M, S] and [H, M, N] of the first stream. For each head and token they sum to one."""
        self.hook.remove()
        x, memory, position = self.given
        attention, weights = self.attention, []
        seen = torch.cat([memory, x[:, :-1]], dim=1)
        query, keys, values = (
            attention.heads(project(part)).contiguous()
            for project, part in ((attention.q_proj, x), (attention.k_proj, seen), (attention.v_proj, seen))
        )
        # dropout is applied to the weights: first to those of the context, then to those of persistent vectors
        hook = attention.dropout.register_forward_pre_hook(lambda _, inputs: weights.append(inputs[0][:, 0]))
        attention.attend(query, attention.context(keys, values, memory.size(1), position, Context))
        hook.remove()
        context, *persistent = weights
        context = band(context)
        context = F.pad(context, (span - context.size(-1), 0))
        rest = persistent[0] if persistent else context.new_zeros(*context.shape[:-1], 0)
        if len(rest) != len(context):
            raise UserError(
                "attention maps need heads that attend to both context and persistent vectors;"
                " with --persistent-integration head-split they do not."
            )
        total = context.sum(-1, keepdim=True) + rest.sum(-1, keepdim=True)
        return context / total, rest / total


class XLRecorder:
    """Records the attention of the layers of a Transformer-XL, from now on. A token sees itself."""

    nearest = 0

    def __init__(self, model: nn.Module):
        layers = modules_of(model, XLAttention)
        self.weights: list[Tensor] = []  # of each layer [H, M, n], of memory and block
        self.hooks = [layer.dropout.register_forward_pre_hook(self._store) for layer in layers]

    def _store(self, dropout, given):
        self.weights.append(given[0])

    def maps(self, span: int) -> list[tuple[Tensor, Tensor]]:
        """Of each layer the weights [H, M, n] by distance, and no persistent vectors [H, M, 0]."""
        for hook in self.hooks:
            hook.remove()
        return [(by_distance(weights), weights[..., :0]) for weights in self.weights]

    def memory_weights(self) -> list[list[float]]:
        return []


def by_distance(weights: Tensor) -> Tensor:
    """Weights [H, M, n] of n - M tokens before a block and of the block -> the same, where column n - 1 is a token
    itself, and column n - 1 - d the token d places before it."""
    block, tokens = weights.shape[1:]
    rows = (F.pad(weights[:, t, : tokens - block + t + 1], (block - 1 - t, 0)) for t in range(block))
    return torch.stack([*rows], dim=1)


def choose(maps: list[HeadMap], number: int) -> list[HeadMap]:
    """``number`` maps, evenly spaced in the order of their context shares, from the smallest to the largest; where
    these are equal, in the order of their distances."""
    ranked = sorted(maps, key=lambda head: (round(head.context_share, 4), head.distance))
    number = min(number, len(ranked))
    return [ranked[round(place * (len(ranked) - 1) / max(number - 1, 1))] for place in range(number)]
