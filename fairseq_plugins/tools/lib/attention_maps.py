"""Attention maps of the heads of a trained language model.

H heads, M query tokens, S columns of distances, N persistent vectors of a head.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.modules.feedback.engine.loop import StepwiseLoop
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
    kind = next((kind for kind in RECORDERS if modules_of(model, kind)), None)
    if kind is None or not hasattr(model, "memory_length"):  # agents have none
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
                maps_of = RECORDERS[kind](model)
            model(dataset[block]["net_input"]["src_tokens"], memory=memory)
        layers = maps_of(before)
    maps = [
        HeadMap(number, head + 1, context[head], persistent[head], nearest=int(kind is not XLAttention))
        for number, (context, persistent) in enumerate(layers, 1)
        for head in range(len(context))
    ]
    return maps, modules_of(model, kind)[0].stack.memory.layer_weights() if kind is FeedbackStream else []


def modules_of(model: nn.Module, kind: type) -> list:
    return [module for module in model.modules() if isinstance(module, kind)]


# Recorders: they keep the attention of a model from now on, and return a function of the width S, which gives for each
# layer the weights of the context [H, M, S] and of persistent vectors [H, M, N], of the first stream.
Maps = Callable[[int], list[tuple[Tensor, Tensor]]]


def record_feedback(model: nn.Module) -> Maps:
    """The attention to the memories. A block is taken step by step."""
    stack = modules_of(model, FeedbackStream)[0].stack
    steps: list[list[Tensor]] = [[] for _ in stack.layers]  # of each layer for each step [H, W]

    class RecordingRecurrence(EagerRecurrence):
        def run(self, x, padding=None):
            self.record_steps(x[0], len(x))
            assert isinstance(self.loop, StepwiseLoop)
            for x_t in x:
                self.step(x_t)
                for of_layer, weights in zip(steps, self.loop.memory_weights(), strict=True):
                    of_layer.append(weights[0])
            return self.recorded(x)

    stack.engine = RecordingRecurrence

    def maps(span):
        layers = (torch.stack(of_layer, dim=1) for of_layer in steps)
        return [(F.pad(weights, (span - weights.size(-1), 0)), weights[..., :0]) for weights in layers]

    return maps


def record_spans(model: nn.Module) -> Maps:
    """The attention of layers with spans. They may cut a block into pieces, or keep no weights, so the weights are
    computed anew from the inputs."""
    layers = modules_of(model, SpanAttention)
    inputs = recorded_inputs(layers)
    return lambda span: [_span_weights(layer, given, span) for layer, given in zip(layers, inputs(), strict=True)]


@torch.no_grad()
def _span_weights(attention: SpanAttention, inputs: tuple, span: int) -> tuple[Tensor, Tensor]:
    """The weights of one layer, whose forward pass had these inputs. For each head and token they sum to one."""
    x, memory, position = inputs
    weights: list[Tensor] = []
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


def record_xl(model: nn.Module) -> Maps:
    """The attention of a Transformer-XL: dropout is applied to the weights. A token sees itself."""
    inputs = recorded_inputs([layer.dropout for layer in modules_of(model, XLAttention)])
    return lambda span: [(by_distance(weights), weights[..., :0]) for (weights,) in inputs()]


def recorded_inputs(modules: list[nn.Module]) -> Callable[[], list[tuple]]:
    """A function that ends the recording and returns the inputs of each module."""
    inputs: list[tuple] = []
    hooks = [module.register_forward_pre_hook(lambda _, given: inputs.append(given)) for module in modules]

    def end() -> list[tuple]:
        for hook in hooks:
            hook.remove()
        return inputs

    return end


RECORDERS = {FeedbackStream: record_feedback, SpanAttention: record_spans, XLAttention: record_xl}


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
