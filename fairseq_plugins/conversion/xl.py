"""What Dai et al.'s code and the library transformers have in common: the names of a Transformer-XL's parameters.

V symbols, C width, H heads, D width of a head, F inner width, E_i width of cluster i, L layers.
"""

import re
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_plugins.conversion.weights import Weights
from fairseq_plugins.errors import UserError

ARCH = "transformer_xl_lm"
BLOCK = 128  # tokens in a block of the evaluations of the large models

# Names there and here
LAYER = {
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
QUERY_KEY_VALUE = "dec_attn.qkv_net.weight"  # [3 H D, C], one above the other
BIASES = {"r_w_bias": "content", "r_r_bias": "position"}  # [H, D]
FREQUENCIES = "pos_emb.inv_freq"  # [C / 2]


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


def take_xl(weights: Weights, words: Words) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The options that sizes tell, and the parameters by our names.

    Raises:
        UserError: the parameters are no Transformer-XL's, or copies of one of them differ
    """
    weights.drop(re.escape(FREQUENCIES))
    layers = weights.count(r"layers\.(\d+)\..*")
    biases = take_biases(weights, layers)
    state = dict(biases)
    for layer in range(layers):
        theirs, ours = f"layers.{layer}.", f"body.layers.{layer}."
        state |= {ours + new: weights.take(theirs + old) for old, new in LAYER.items()}
        for part, rows in zip("qkv", weights.take(theirs + QUERY_KEY_VALUE, dim=2).chunk(3)):
            state[f"{ours}attention.{part}_proj.weight"] = rows
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
    state = {f"decoder.{name}": tensor for name, tensor in (state | io_state).items()}
    return options | io_options, state


def notes_of(weights: Weights) -> list[str]:
    """What to say of a model in half precision."""
    if not any(tensor.dtype == torch.float16 for tensor in weights.left.values()):
        return []
    return [
        "the model is in half precision, and so are its positions there; here they are float32, so losses differ a"
        " little from those of a training with --fp16"
    ]


def take_biases(weights: Weights, layers: int) -> dict[str, Tensor]:
    """u and v: one pair for all layers, which layers may have copies of, or one for each layer."""
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
    count = 1 if words.factor == 1 else len(words.cutoffs) + 1
    ins, outs = ([name.format(i) for i in range(count)] for name in ("word_emb.emb_layers.{}", "crit.out_layers.{}"))
    pairs = [(f"{one}.weight", f"{two}.weight") for one, two in zip(ins, outs)]
    tied = any(map(weights.same, pairs))
    if tied:
        tables = own = [weights.take_same(pair, dim=2) for pair in pairs]
    else:
        tables, own = ([weights.take(name, dim=2) for name in names] for names in zip(*pairs))
    biases = [weights.take(f"{name}.bias", dim=1) for name in outs]
    if not words.cutoffs and words.embed_dim == words.width and words.factor == 1:
        state = {"embed.weight": tables[0], "output.weight": own[0], "output.bias": biases[0]}
        return {"share_decoder_input_output_embed": tied}, state
    if not words.cutoffs and (words.embed_dim == words.width or not tied):
        raise UserError(
            "the checkpoint projects embeddings without adaptive softmax (--div_val or --d_embed without --adaptive, or"
            " with --not_tied), which no model of this suite does; it cannot be converted."
        )
    projection_options, state = take_projections(weights, words, tied)
    for name, parts in (("embed.tables", tables), ("output.tables", own), ("output.biases", biases)):
        clusters = in_clusters(parts[0], words.cutoffs) if words.factor == 1 else parts
        state |= {f"{name}.{i}": part for i, part in enumerate(clusters)}
    options: dict[str, Any] = {"decoder_input_dim": words.embed_dim} if words.embed_dim != words.width else {}
    if not words.cutoffs:
        nothing = {"cluster_weight": tables[0][:0], "cluster_bias": biases[0][:0]}
        options["share_decoder_input_output_embed"] = True
        state |= {f"output.{name}": empty for name, empty in nothing.items()}
        return options | projection_options, state
    for name in ("cluster_weight", "cluster_bias"):
        rows = weights.take(f"crit.{name}")
        state[f"output.{name}"] = rows if words.reverse_clusters else rows.flip(0)
    options |= {"adaptive_input": True, "tie_adaptive_weights": tied}
    for part in ("adaptive_input", "adaptive_softmax"):
        options |= {f"{part}_cutoff": words.cutoffs, f"{part}_factor": words.factor}
    return options | projection_options, state


def in_clusters(table: Tensor, cutoffs: list[int]) -> list[Tensor]:
    """One table [V, ...] -> that of each cluster"""
    return [table[begin:end] for begin, end in pairwise([0, *cutoffs, len(table)])]


def take_projections(weights: Weights, words: Words, tied: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Options and projections [C, E_i] of embeddings and of the output layer; there may be none.

    If input and output share their tables, they may share all projections, or all but the first, or none.
    """
    ins = [f"word_emb.emb_projs.{i}" for i in range(weights.count(r"word_emb\.emb_projs\.(\d+)"))]
    outs = [f"crit.out_projs.{i}" for i in range(weights.count(r"crit\.out_projs\.(\d+)"))]
    of_output = ins * len(outs) if len(ins) == 1 else ins  # the input's that each of the output's may be
    pairs = list(zip(of_output, outs))
    shared = [tied and weights.same(pair) for pair in pairs]
    if any(shared[1:]) and not all(shared[1:]):
        place = shared.index(False, 1)
        weights.take_same(pairs[place])  # raises: a copy that differs
    inputs = [weights.take(name, dim=2) for name in ins]
    state = {f"embed.projections.{i}": projection for i, projection in enumerate(inputs)}
    state |= {f"output.projections.{i}": weights.take(name, dim=2) for i, name in enumerate(outs)}
    if not pairs:  # all is as wide as the model, so there is nothing that could not be shared
        return ({"tie_adaptive_proj": True} if tied else {}), state
    if not words.cutoffs:
        return {"untie_head_proj": not shared[0]}, state
    return {"tie_adaptive_proj": shared[-1], "untie_head_proj": shared[-1] and not shared[0]}, state
