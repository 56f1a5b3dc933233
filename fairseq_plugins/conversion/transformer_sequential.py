"""Checkpoints of github.com/facebookresearch/transformer-sequential: Feedback Transformers (Fan et al., 2020), and the
Transformers that they are compared with.

V symbols, C width, H heads, D width of a head, S maximum span, L layers.
"""

from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairseq_plugins.conversion.sources import Converted, Source
from fairseq_plugins.conversion.spans import distances, heads, ramp_note, span_options
from fairseq_plugins.conversion.vocabulary import UNKNOWN, Vocabulary, by_count, pickled_symbols, words
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
KEYS_AND_VALUES = ("attn.proj_key.weight", "attn.proj_val.weight")  # [H D, C]
FIRST_NORM = ("norm1.weight", "norm1.bias")
# For each layer; here first in a Feedback Transformer, then in a Transformer
LAYER = {
    "attn.proj_query.weight": ("self_attn.q_proj.weight", "attention.q_proj.weight"),
    "attn.proj_key.weight": ("self_attn.k_proj.weight", "attention.k_proj.weight"),
    "attn.proj_val.weight": ("self_attn.v_proj.weight", "attention.v_proj.weight"),
    "attn.proj_out.weight": ("self_attn.out_proj.weight", "attention.out_proj.weight"),  # [C, H D]
    "norm1.weight": ("self_attn_layer_norm.weight", "attention_norm.weight"),
    "norm1.bias": ("self_attn_layer_norm.bias", "attention_norm.bias"),
    "ff.fc1.weight": ("fc1.weight", "sublayer.fc1.weight"),
    "ff.fc1.bias": ("fc1.bias", "sublayer.fc1.bias"),
    "ff.fc2.weight": ("fc2.weight", "sublayer.fc2.weight"),
    "ff.fc2.bias": ("fc2.bias", "sublayer.fc2.bias"),
    "norm2.weight": ("final_layer_norm.weight", "sublayer_norm.weight"),
    "norm2.bias": ("final_layer_norm.bias", "sublayer_norm.bias"),
}
LAYERS = ("body.stack.layers", "body.layers")
POSITION = "attn.attn.key_pe"  # [1, D, S], one parameter under each layer; the last column is that of the nearest token
POSITIONS = ("body.stack.window.position.weight", "body.position.weight")
SPAN = "attn.attn.adaptive_span.mask.size_ratio"  # [H, 1, 1], or [1] where the heads of a layer share it; fraction of S
SPANS = ("body.stack.window.spans.{}.span_ratio", "body.layers.{}.attention.span.span_ratio")
MIXING = "single_memory_attn_params"  # [1, L + 1], logits of what the memory is made of, the embedding first
CONSTANTS = r"layers\.\d+\.attn\.attn\.adaptive_span\.mask\.mask_template"
LATEST = "single_memory_attn_buf"  # the softmax of MIXING at the last forward pass


def convert(checkpoint: Any, args: Namespace) -> Converted:
    weights = Weights(model_of(checkpoint, NAME), NAME)
    layers = weights.count(r"layers\.(\d+)\..*")
    feedback, pre_norm, adaptive = MIXING in weights, "out_norm.weight" in weights, f"layers.0.{SPAN}" in weights
    column = 0 if feedback else 1

    def of_layers(name: str) -> list[str]:
        return [f"layers.{layer}.{name}" for layer in range(layers)]

    neighbours = [pair for name in KEYS_AND_VALUES for pair in pairwise(of_layers(name))]
    shared = feedback and any(map(weights.same, neighbours))  # training makes any others differ
    one_parameter = KEYS_AND_VALUES + (FIRST_NORM if pre_norm else ()) if shared else ()
    position = weights.take_same(of_layers(POSITION) or [f"layers.0.{POSITION}"], dim=3)[0]  # [D, S]
    weights.drop(CONSTANTS, distances(position))
    state = {ours: weights.take(theirs) for theirs, ours in (IO | (OUT_NORM if pre_norm else {})).items()}
    state[POSITIONS[column]] = position
    for name, ours in LAYER.items():
        names = of_layers(name)
        each = [weights.take_same(names)] * layers if name in one_parameter else [weights.take(each) for each in names]
        state |= {f"{LAYERS[column]}.{layer}.{ours[column]}": tensor for layer, tensor in enumerate(each)}
    head_dim, width = len(position), state["embed.weight"].size(1)
    number = heads(len(state[f"{LAYERS[column]}.0.{LAYER['attn.proj_query.weight'][column]}"]), position)
    spans = [weights.take(name).flatten() for name in of_layers(SPAN)] if adaptive else []
    for layer, ratio in enumerate(spans):
        state[SPANS[column].format(layer)] = ratio.repeat(number) if len(ratio) == 1 else ratio
    if feedback:
        state["body.stack.memory.layer_logits"] = weights.take(MIXING, dim=2)[0]
        weights.drop(LATEST)
    weights.finish()

    options: dict[str, Any] = {
        "decoder_layers": layers,
        "decoder_embed_dim": width,
        "decoder_ffn_embed_dim": len(state[f"{LAYERS[column]}.0.{LAYER['ff.fc1.bias'][column]}"]),
        "decoder_attention_heads": number,
        **span_options(position, adaptive, args.span_ramp),
    }
    if head_dim * number != width:
        options["decoder_head_dim"] = head_dim
    if pre_norm:
        options["decoder_normalize_before"] = True
    notes = ramp_note(args.span_ramp, NAME, "--adapt-span-len") if adaptive else []
    if any(len(ratio) < number for ratio in spans):
        notes.append("the heads of a layer share their span there; here each has its own, at first the same")
    if feedback:
        options["feedback_kv"] = "shared" if shared else "per-layer"
    if feedback and pre_norm:
        options["normalise_memory_twice"] = True
        notes.append(
            "memories of earlier blocks are normalised twice, as the repository does, so figures depend on the length"
            " of a block, its --mem-sz, which the file does not say: evaluate with that as --tokens-per-sample"
        )
    state = {f"decoder.{name}": tensor for name, tensor in state.items()}
    return Converted("feedback_lm" if feedback else "span_transformer_lm", options, state, BLOCK, notes)


def pickled_vocabulary(corpus: Any) -> Vocabulary:
    symbols = pickled_symbols(corpus, "dictionary", "idx2word", NAME)
    return Vocabulary(symbols, ends_lines=getattr(corpus, "include_eos", None) is True)


def counted_vocabulary(train: Path, converted: Converted) -> Vocabulary:
    """By falling count, with an end of line after each line, though text has none without --data-eos."""
    labels = train.with_name(f"{train.name}.labels")
    symbols = by_count(words(train, *([labels] if labels.is_file() else [])), first=[UNKNOWN])
    return Vocabulary(symbols, ends_lines=False)


SOURCE = Source(
    convert,
    pickled_vocabulary,
    counted_vocabulary,
    corpus_types=("data.Corpus", "data.Dictionary", "data.CharCorpus", "data.CharDictionary"),
    flags=("span_ramp",),
    list_ends_lines=False,
)
