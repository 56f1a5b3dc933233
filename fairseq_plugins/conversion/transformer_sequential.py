"""Checkpoints of github.com/facebookresearch/transformer-sequential: Feedback Transformers (Fan et al., 2020), and the
Transformers that they are compared with.

V symbols, C width, H heads, D width of a head, S maximum span, L layers.
"""

from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairseq_plugins.conversion import adaptive_span
from fairseq_plugins.conversion.sources import UNKNOWN, Converted, Source
from fairseq_plugins.conversion.vocabulary import Vocabulary, by_count, words
from fairseq_plugins.conversion.weights import Weights, model_of

NAME = "transformer-sequential"
BLOCK = 128  # --mem-sz of the script for enwik8

# Names there and here
IO = {
    "in_emb.weight": "embed.weight",  # [V, C]
    "out.out_emb.weight": "output.weight",
    "out.out_emb.bias": "output.bias",
}
OUT_NORM = {"out_norm.weight": "body.norm.weight", "out_norm.bias": "body.norm.bias"}  # with pre-norm only
LAYER = adaptive_span.LAYER | adaptive_span.FEED_FORWARD  # with [H D, C] and [C, H D] in place of [C, C]
KEYS_AND_VALUES = ("attn.proj_key.weight", "attn.proj_val.weight")
FIRST_NORM = ("norm1.weight", "norm1.bias")
POSITION = "attn.attn.key_pe"  # [1, D, S], one parameter under each layer; the last column is that of the nearest token
SPAN = "attn.attn.adaptive_span.mask.size_ratio"  # [H, 1, 1], or [1] where the heads of a layer share it; fraction of S
MIXING = "single_memory_attn_params"  # [1, L + 1], logits of the mixture in the memory, the embedding first
LATEST = "single_memory_attn_buf"  # the softmax of MIXING at the last forward pass

# Parts of names here, in a Transformer and in a Feedback Transformer
FEEDBACK = {
    "body.position.": "body.stack.window.position.",
    "body.spans.": "body.stack.window.spans.",
    "body.layers.": "body.stack.layers.",
    ".attention.": ".self_attn.",
    ".attention_norm.": ".self_attn_layer_norm.",
    ".sublayer.": ".",
    ".sublayer_norm.": ".final_layer_norm.",
}


def convert(checkpoint: Any, args: Namespace) -> Converted:
    weights = model_of(checkpoint, NAME)
    layers = weights.count("layers.")
    feedback, pre_norm, adaptive = MIXING in weights, "out_norm.weight" in weights, f"layers.0.{SPAN}" in weights
    position = weights.take_same(of_layers(POSITION, layers), dim=3)[0]  # [D, S]
    span_options, notes = adaptive_span.take_span(weights, position, adaptive, args.span_ramp, "--adapt-span-len")
    ratios = [weights.take(name).flatten() for name in of_layers(SPAN, layers)] if adaptive else []
    shared = feedback and shares_keys_and_values(weights, layers, pre_norm)
    state = weights.take_all(IO | (OUT_NORM if pre_norm else {})) | weights.take_layers(LAYER)
    state["body.position.weight"] = position
    width = state["embed.weight"].size(1)
    number = adaptive_span.heads(state["body.layers.0.attention.q_proj.weight"], position)
    options: dict[str, Any] = {
        "decoder_layers": layers,
        "decoder_embed_dim": width,
        "decoder_ffn_embed_dim": len(state["body.layers.0.sublayer.fc1.bias"]),
        "decoder_attention_heads": number,
        **span_options,
    }
    if len(position) * number != width:
        options["decoder_head_dim"] = len(position)
    if pre_norm:
        options["decoder_normalize_before"] = True
    if any(len(ratio) < number for ratio in ratios):
        notes.append("the heads of a layer share their span there; here each has its own, at first the same")
    for layer, ratio in enumerate(ratios):
        name = f"body.spans.{layer}" if feedback else f"body.layers.{layer}.attention.span"
        state[f"{name}.span_ratio"] = ratio.repeat(number) if len(ratio) == 1 else ratio
    if feedback:
        state = {in_feedback(name): tensor for name, tensor in state.items()}
        state["body.stack.memory.layer_logits"] = weights.take(MIXING, dim=2)[0]
        weights.drop(LATEST)
        options["feedback_kv"] = "shared" if shared else "per-layer"
    weights.finish()
    if feedback and pre_norm:
        options["normalise_memory_twice"] = True
        notes.append(
            "memories of earlier blocks are normalised twice, as the repository does, so figures depend on the length"
            " of a block, its --mem-sz, which the file does not hold: give it as --tokens-per-sample to evaluate"
        )
    return Converted("feedback_lm" if feedback else "span_transformer_lm", options, state, BLOCK, notes)


def of_layers(name: str, layers: int) -> list[str]:
    return [f"layers.{layer}.{name}" for layer in range(layers)]


def shares_keys_and_values(weights: Weights, layers: int, pre_norm: bool) -> bool:
    """Have all layers one projection of keys and of values, and before it one norm? Raises UserError if only some of
    them share it."""
    neighbours = [pair for name in KEYS_AND_VALUES for pair in pairwise(of_layers(name, layers))]
    if not any(map(weights.same, neighbours)):  # training makes any others differ
        return False
    for name in KEYS_AND_VALUES + (FIRST_NORM if pre_norm else ()):
        for pair in pairwise(of_layers(name, layers)):
            weights.check_same(*pair)
    return True


def in_feedback(name: str) -> str:
    for transformer, feedback in FEEDBACK.items():
        name = name.replace(transformer, feedback)
    return name


def counted_vocabulary(train: Path, converted: Converted) -> Vocabulary:
    """By falling count, with an end of line after each line, though text has none without --data-eos."""
    labels = train.with_name(f"{train.name}.labels")
    symbols = by_count(words(train, *([labels] if labels.is_file() else [])), first=[UNKNOWN])
    return Vocabulary(symbols, ends_lines=False)


SOURCE = Source(
    NAME,
    convert,
    counted_vocabulary,
    symbols=("dictionary", "idx2word"),
    corpus_types=("data.Corpus", "data.Dictionary", "data.CharCorpus", "data.CharDictionary"),
    flags=("span_ramp", "data_eos"),
    ends_lines=lambda corpus, symbols: getattr(corpus, "include_eos", None) is True,
)
