"""Checkpoints of github.com/facebookresearch/adaptive-span (Sukhbaatar et al., 2019): Transformers and all-attention
models with fixed or adaptive spans.

V symbols, C width, H heads, D = C / H width of a head, S maximum span, N persistent vectors.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_plugins.conversion.adaptive_io import take_adaptive_io
from fairseq_plugins.conversion.sources import Converted, Source
from fairseq_plugins.conversion.vocabulary import Vocabulary, by_appearance, by_count, words
from fairseq_plugins.conversion.weights import Weights, model_of
from fairseq_plugins.errors import UserError

NAME = "adaptive-span"
BLOCK = 512  # --block-sz of the scripts for characters
RAMP = 32  # the default, and that of transformer-sequential

# Names there and here. All positions are one table [1, D, S], whose last column is that of the nearest token, as here
PLAIN_IO = {
    "in_emb.weight": "embed.weight",  # [V, C]
    "out_emb.weight": "output.weight",
    "out_emb.bias": "output.bias",
}
LAYER = {
    "attn.proj_query.weight": "attention.q_proj.weight",  # [C, C]
    "attn.proj_key.weight": "attention.k_proj.weight",
    "attn.proj_val.weight": "attention.v_proj.weight",
    "attn.proj_out.weight": "attention.out_proj.weight",
    "norm1.weight": "attention_norm.weight",
    "norm1.bias": "attention_norm.bias",
}
FEED_FORWARD = {
    "ff.fc1.weight": "sublayer.fc1.weight",
    "ff.fc1.bias": "sublayer.fc1.bias",
    "ff.fc2.weight": "sublayer.fc2.weight",
    "ff.fc2.bias": "sublayer.fc2.bias",
    "norm2.weight": "sublayer_norm.weight",
    "norm2.bias": "sublayer_norm.bias",
}
PERSISTENT = {
    "attn.attn.persistent_memory.key": "attention.persistent.key",  # [H, D, N]; here [H, N, D]
    "attn.attn.persistent_memory.val": "attention.persistent.value",  # [H, N, D]
}
# [H, 1, 1], as a fraction of S; the same once more, where there are persistent vectors
SPANS = ("attn.attn.adaptive_span._mask.current_val", "attn.attn.persistent_memory.adaptive_span._mask.current_val")


def convert(checkpoint: Any, args: Namespace) -> Converted:
    weights = model_of(checkpoint, NAME)
    persistent, adaptive = (f"layers.0.{name}" in weights for name in (next(iter(PERSISTENT)), SPANS[0]))
    position = weights.take("key_pe", dim=3)[0]  # [D, S]
    span_options, notes = take_span(weights, position, adaptive, args.span_ramp, "--adapt-span-ramp")
    layers = weights.count("layers.")
    io_options, state = ({}, weights.take_all(PLAIN_IO)) if "in_emb.weight" in weights else take_adaptive_io(weights)
    state["body.position.weight"] = position
    for layer in range(layers if adaptive else 0):
        copies = [f"layers.{layer}.{name}" for name in SPANS[: 1 + persistent]]
        state[f"body.layers.{layer}.attention.span.span_ratio"] = weights.take_same(copies, dim=3).flatten()
    state |= weights.take_layers(LAYER | (PERSISTENT if persistent else FEED_FORWARD))
    weights.finish()
    embedding = state["embed.weight" if "embed.weight" in state else "embed.tables.0"]
    options = {
        **io_options,
        "decoder_layers": layers,
        "decoder_embed_dim": embedding.size(1),
        "decoder_attention_heads": heads(state["body.layers.0.attention.q_proj.weight"], position),
        **span_options,
    }
    if not persistent:
        options["decoder_ffn_embed_dim"] = len(state["body.layers.0.sublayer.fc1.bias"])
        return Converted("span_transformer_lm", options, state, BLOCK, notes)
    for layer in range(layers):
        key = f"body.layers.{layer}.attention.persistent.key"
        state[key] = state[key].transpose(1, 2)
    options["persistent_vectors"] = state["body.layers.0.attention.persistent.key"].size(1)
    return Converted("all_attention_lm", options, state, BLOCK, notes)


def heads(query: Tensor, position: Tensor) -> int:
    """H, from the weights of the query projection [H D, C] and the positions [D, S]."""
    return query.unflatten(0, (-1, len(position))).size(0)


def take_span(
    weights: Weights, position: Tensor, adaptive: bool, ramp: int | None, their_flag: str
) -> tuple[dict[str, Any], list[str]]:
    """The options of a span, and sentences for the user. Raises UserError if there is a ramp for a fixed span, or a
    constant of the spans has another value.

    Args:
        position: [D, S]
        ramp: of --span-ramp
        their_flag: the repository's flag for it
    """
    length = position.size(1)
    if not adaptive:
        if ramp:
            raise UserError(f"--span-ramp {ramp} is for adaptive spans, and this model has fixed ones; leave it out.")
        return {"attention_span": length}, []
    weights.drop("mask.mask_template", torch.arange(1.0 - length, 1))
    note = (
        f"span ramp {RAMP}, the default of {weights.repository}: the file does not hold it. If the training had another"
        f" {their_flag}, convert again with --span-ramp"
    )
    return {"attention_span": length, "adaptive_span": True, "span_ramp": ramp or RAMP}, [] if ramp else [note]


def counted_vocabulary(train: Path, converted: Converted) -> Vocabulary:
    """In the order of appearance; with adaptive input, by falling count."""
    order = by_count if "adaptive_input" in converted.options else by_appearance
    return Vocabulary(order(words(train)), ends_lines=True)


SOURCE = Source(
    NAME,
    convert,
    counted_vocabulary,
    symbols=("_dictionary", "idx2word"),
    corpus_types=("data.Corpus", "data.Dictionary"),
    flags=("span_ramp",),
)
