"""The common part of Dai et al.'s code and the library transformers: the names of a Transformer-XL's parameters.

V symbols, C width, H heads, D width of a head, F inner width, E_i width of cluster i, L layers.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_plugins.conversion.adaptive_io import adaptive_options
from fairseq_plugins.conversion.weights import Weights
from fairseq_plugins.errors import UserError

ARCH = "transformer_xl_lm"
BLOCK = 128  # tokens in a block of the evaluations of the large models

# Names there and here
LAYER = {
    "dec_attn.qkv_net.weight": "attention.qkv",  # [3 H D, C]: queries, keys and values, one above the other
    "dec_attn.r_net.weight": "attention.position_proj.weight",  # [H D, C]
    "dec_attn.o_net.weight": "attention.out_proj.weight",  # [C, H D]
    "dec_attn.layer_norm.weight": "attention_norm.weight",
    "dec_attn.layer_norm.bias": "attention_norm.bias",
    "pos_ff.CoreNet.0.weight": "sublayer.fc1.weight",  # [F, C]
    "pos_ff.CoreNet.0.bias": "sublayer.fc1.bias",
    "pos_ff.CoreNet.3.weight": "sublayer.fc2.weight",
    "pos_ff.CoreNet.3.bias": "sublayer.fc2.bias",
    "pos_ff.layer_norm.weight": "sublayer_norm.weight",
    "pos_ff.layer_norm.bias": "sublayer_norm.bias",
}
BIASES = {"r_w_bias": "content", "r_r_bias": "position"}  # [H, D]
CLUSTERS = ("cluster_weight", "cluster_bias")


class Words(NamedTuple):
    """How symbols are embedded, which the names do not tell.

    Attributes:
        width: C
        embed_dim: E_0
        cutoffs: where clusters end, without the last
        factor: each cluster is this many times narrower than the one before
        reverse_clusters: at the output, is the last row that of the second cluster? It is so here
    """

    width: int
    embed_dim: int
    cutoffs: list[int]
    factor: int
    reverse_clusters: bool


def take_xl(weights: Weights, words: Words) -> tuple[dict[str, Any], dict[str, Tensor], list[str]]:
    """The options that sizes tell, the parameters by our names, and sentences for the user. Raises UserError if the
    parameters are no Transformer-XL's, or copies of one of them differ."""
    notes = notes_of(weights)
    weights.drop("pos_emb.inv_freq")
    layers = weights.count("layers.")
    biases = take_biases(weights, layers)
    state = biases | weights.take_layers(LAYER)
    for layer in range(layers):
        rows = state.pop(f"body.layers.{layer}.attention.qkv").chunk(3)
        state |= {f"body.layers.{layer}.attention.{part}_proj.weight": each for part, each in zip("qkv", rows)}
    heads, head_dim = next(iter(biases.values())).shape
    options = {
        "decoder_layers": layers,
        "decoder_embed_dim": words.width,
        "decoder_attention_heads": heads,
        "decoder_head_dim": head_dim,
        "decoder_ffn_embed_dim": len(state["body.layers.0.sublayer.fc1.bias"]),
        "untie_biases": len(biases) > len(BIASES),
        "float32_frequencies": True,
    }
    io_options, io_state = take_io(weights, words)
    weights.finish()
    return options | io_options, state | io_state, notes


def notes_of(weights: Weights) -> list[str]:
    """A sentence for the user of a model in half precision."""
    if not any(tensor.dtype == torch.float16 for tensor in weights.left.values()):
        return []
    return [
        "the model is in half precision, and so are its positions there; here they are float32, so losses differ a"
        " little from those of a training with --fp16"
    ]


def take_biases(weights: Weights, layers: int) -> dict[str, Tensor]:
    """u and v: one pair for all layers, of which layers may have copies, or one for each layer."""
    taken = {}
    for theirs, ours in BIASES.items():
        of_layers = [f"layers.{layer}.dec_attn.{theirs}" for layer in range(layers)]
        if theirs in weights:
            copies = [name for name in of_layers if name in weights]
            taken[f"body.biases.0.{ours}"] = weights.take_same([theirs, *copies], dim=2)
        else:
            taken |= {f"body.biases.{i}.{ours}": weights.take(name, dim=2) for i, name in enumerate(of_layers)}
    return taken


def take_io(weights: Weights, words: Words) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Options and parameters of the input and the output layer."""
    tied, tables = take_tables(weights, 1 if words.factor == 1 else len(words.cutoffs) + 1)
    projected, adaptive = words.embed_dim != words.width, bool(words.cutoffs)
    if not adaptive and not projected and words.factor == 1:
        names = {"embed.tables": "embed.weight", "output.tables": "output.weight", "output.biases": "output.bias"}
        return {"share_decoder_input_output_embed": tied}, {new: tables[old][0] for old, new in names.items()}
    if not adaptive and not (projected and tied):
        raise UserError(
            "the checkpoint projects embeddings without adaptive softmax (--div_val or --d_embed without --adaptive, or"
            " with --not_tied), which no model of this suite does; it cannot be converted."
        )
    if words.factor == 1:  # one table [V, ...], of which each cluster has a part
        bounds = [*pairwise([0, *words.cutoffs, len(tables["embed.tables"][0])])]
        tables = {name: [table[begin:end] for begin, end in bounds] for name, (table,) in tables.items()}
    state = {f"{name}.{i}": table for name, parts in tables.items() for i, table in enumerate(parts)}
    options: dict[str, Any] = {"decoder_input_dim": words.embed_dim} if projected else {}
    if adaptive:
        rows = [weights.take(f"crit.{name}") for name in CLUSTERS]
        rows = rows if words.reverse_clusters else [row.flip(0) for row in rows]
        options |= {"adaptive_input": True, "tie_adaptive_weights": tied}
        options |= adaptive_options(words.cutoffs, words.factor)
    else:
        rows = [state["output.tables.0"][:0], state["output.biases.0"][:0]]
        options["share_decoder_input_output_embed"] = True
    state |= {f"output.{name}": row for name, row in zip(CLUSTERS, rows)}
    projection_options, projections = take_projections(weights, adaptive, tied)
    return options | projection_options, state | projections


def take_tables(weights: Weights, count: int) -> tuple[bool, dict[str, list[Tensor]]]:
    """Do input and output share their tables? The tables and biases of the clusters, ``count`` of each."""
    names = [(f"word_emb.emb_layers.{i}.weight", f"crit.out_layers.{i}.weight") for i in range(count)]
    tied = any(map(weights.same, names))
    if tied:
        for pair in names:
            weights.check_same(*pair)
    ins, outs = ([weights.take(name, dim=2) for name in side] for side in zip(*names))
    biases = [weights.take(f"crit.out_layers.{i}.bias", dim=1) for i in range(count)]
    return tied, {"embed.tables": ins, "output.tables": outs, "output.biases": biases}


def take_projections(weights: Weights, adaptive: bool, tied: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Options and projections [C, E_i] of embeddings and of the output layer; there may be none.

    If input and output share their tables, they may share all projections, or all but the first, or none.
    """
    ins = [f"word_emb.emb_projs.{i}" for i in range(weights.count("word_emb.emb_projs."))]
    outs = [f"crit.out_projs.{i}" for i in range(weights.count("crit.out_projs."))]
    of_output = ins * len(outs) if len(ins) == 1 else ins  # the input's that each of the output's may be
    pairs = list(zip(of_output, outs))
    shared = [tied and weights.same(pair) for pair in pairs]
    if any(shared[1:]):
        for pair in pairs[1:]:
            weights.check_same(*pair)
    names = {name: f"embed.projections.{i}" for i, name in enumerate(ins)}
    state = weights.take_all(names | {name: f"output.projections.{i}" for i, name in enumerate(outs)}, dim=2)
    if not pairs:  # all is as wide as the model, so there is nothing that could not be shared
        return ({"tie_adaptive_proj": True} if tied else {}), state
    if not adaptive:
        return {"untie_head_proj": not shared[0]}, state
    return {"tie_adaptive_proj": shared[-1], "untie_head_proj": shared[-1] and not shared[0]}, state
