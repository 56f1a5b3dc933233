"""Attention maps of the heads of a trained model.

H heads, M query tokens, S span, N persistent vectors of a head.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.modules.span.attention import Context, SpanAttention
from fairseq_plugins.modules.span.band import band
from fairseq_plugins.tools.lib.load import load

BLOCK = 512


@dataclass
class HeadMap:
    """The attention of one head. Each row of the two tensors together sums to one.

    Attributes:
        layer, head: counted from 1
        context: [M, S], weights of the tokens before, the nearest last
        persistent: [M, N], weights of persistent vectors
    """

    layer: int
    head: int
    context: Tensor
    persistent: Tensor

    @property
    def context_share(self) -> float:
        """The fraction of the attention that goes to the context."""
        return float(self.context.sum() / (self.context.sum() + self.persistent.sum()))


def attention_maps(checkpoint: Path, data: Path | None, split: str, tokens: int) -> list[HeadMap]:
    """Maps of all heads for ``tokens`` tokens of a split. As many tokens as the longest span are read before them.

    Raises:
        UserError: the checkpoint is of a model without such attention, or the split is too short
    """
    model, _, task = load(checkpoint, {"data": str(data)} if data else {}, cpu=True)
    layers = [module for module in model.modules() if isinstance(module, SpanAttention)]
    if not layers:
        raise UserError(f"{checkpoint} has no span attention; give a checkpoint of --arch all_attention_lm.")
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
                recorders = [_Recorder(layer) for layer in layers]
            model(dataset[block]["net_input"]["src_tokens"], memory=memory)
    return [
        HeadMap(number, head + 1, context[head], persistent[head])
        for number, (context, persistent) in enumerate((recorder.maps(before) for recorder in recorders), 1)
        for head in range(len(context))
    ]


class _Recorder:
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


def choose(maps: list[HeadMap], number: int) -> list[HeadMap]:
    """``number`` maps, evenly spaced in the order of their context shares, from the smallest to the largest."""
    ranked = sorted(maps, key=lambda head: head.context_share)
    number = min(number, len(ranked))
    return [ranked[round(place * (len(ranked) - 1) / max(number - 1, 1))] for place in range(number)]
