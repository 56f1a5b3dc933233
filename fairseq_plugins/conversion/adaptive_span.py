"""Checkpoints of github.com/facebookresearch/adaptive-span (Sukhbaatar et al., 2019): Transformers and all-attention
models with fixed or adaptive spans.

V symbols, C width, H heads, D = C / H width of a head, S maximum span, N persistent vectors, L layers.
"""

from argparse import Namespace
from typing import Any

from torch import Tensor

from fairseq_plugins.conversion.adaptive_io import take_adaptive_io
from fairseq_plugins.conversion.sources import Converted, Source
from fairseq_plugins.conversion.spans import distances, heads, ramp_note, span_options
from fairseq_plugins.conversion.vocabulary import Vocabulary, by_appearance, by_count, pickled_symbols, words
from fairseq_plugins.conversion.weights import Weights, model_of

NAME = "adaptive-span"
BLOCK = 512  # --block-sz of the scripts for characters

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
MEMORY = "attn.attn.persistent_memory"
SPAN = "attn.attn.adaptive_span._mask.current_val"  # [H, 1, 1], as a fraction of S
SPAN_OF_MEMORY = f"{MEMORY}.adaptive_span._mask.current_val"  # the same once more, where both are there
CONSTANTS = r"layers\.\d+\.attn\.attn\.(persistent_memory\.)?adaptive_span\._mask\.mask_template"


def convert(checkpoint: Any, args: Namespace) -> Converted:
    weights = Weights(model_of(checkpoint, NAME), NAME)
    layers = weights.count(r"layers\.(\d+)\..*")
    position = weights.take("key_pe", dim=3)[0]  # [D, S]
    weights.drop(CONSTANTS, distances(position))
    persistent, adaptive = (f"layers.0.{name}" in weights for name in (f"{MEMORY}.key", SPAN))
    options: dict[str, Any] = {}
    state: dict[str, Tensor] = {"body.position.weight": position}
    if "in_emb.weight" in weights:
        state |= {ours: weights.take(theirs) for theirs, ours in PLAIN_IO.items()}
        width = state["embed.weight"].size(1)
    else:
        io_options, io_state = take_adaptive_io(weights)
        options |= io_options
        state |= io_state
        width = state["embed.tables.0"].size(1)
    for layer in range(layers):
        theirs, ours = f"layers.{layer}.", f"body.layers.{layer}."
        table = LAYER if persistent else {**LAYER, **FEED_FORWARD}
        state |= {ours + new: weights.take(theirs + old) for old, new in table.items()}
        if adaptive:
            names = [SPAN, SPAN_OF_MEMORY] if persistent else [SPAN]
            ratio = weights.take_same([theirs + name for name in names], dim=3)
            state[f"{ours}attention.span.span_ratio"] = ratio.flatten()
        if persistent:
            state[f"{ours}attention.persistent.key"] = weights.take(f"{theirs}{MEMORY}.key", dim=3).transpose(1, 2)
            state[f"{ours}attention.persistent.value"] = weights.take(f"{theirs}{MEMORY}.val", dim=3)
    weights.finish()

    options |= {
        "decoder_layers": layers,
        "decoder_embed_dim": width,
        "decoder_attention_heads": heads(width, position),
        **span_options(position, adaptive, args.span_ramp),
    }
    if persistent:
        options["persistent_vectors"] = state["body.layers.0.attention.persistent.value"].size(1)
    else:
        options["decoder_ffn_embed_dim"] = len(state["body.layers.0.sublayer.fc1.bias"])
    arch = "all_attention_lm" if persistent else "span_transformer_lm"
    notes = ramp_note(args.span_ramp, NAME, "--adapt-span-ramp") if adaptive else []
    return Converted(arch, options, {f"decoder.{name}": tensor for name, tensor in state.items()}, BLOCK, notes)


def pickled_vocabulary(corpus: Any) -> Vocabulary:
    return Vocabulary(pickled_symbols(corpus, "_dictionary", "idx2word", NAME), ends_lines=True)


def counted_vocabulary(train, converted: Converted) -> Vocabulary:
    """In the order of appearance; with adaptive input, by falling count."""
    order = by_count if "adaptive_input" in converted.options else by_appearance
    return Vocabulary(order(words(train)), ends_lines=True)


SOURCE = Source(
    convert,
    pickled_vocabulary,
    counted_vocabulary,
    corpus_types=("data.Corpus", "data.Dictionary"),
    flags=("span_ramp",),
)
