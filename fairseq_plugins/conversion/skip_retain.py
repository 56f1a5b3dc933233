"""Checkpoints of the Skip-Retain code (Vishnu and Sekhar, 2023): saved_model.pt, and log.txt beside it, which has every
option of the training. The repository is
github.com/vishwajit-vishnu/Memory-efficient-Stochastic-methods-for-Memory-based-Transformers.

V symbols, C width, H heads, D = C / H width of a head, F inner width, E width of factorised embeddings.
"""

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

from torch import Tensor

from fairseq_plugins.conversion.adaptive_io import take_adaptive_io
from fairseq_plugins.conversion.adaptive_span import FEED_FORWARD, PLAIN_IO
from fairseq_plugins.conversion.sources import END_OF_LINE, Converted, Source
from fairseq_plugins.conversion.vocabulary import Vocabulary, by_count, words
from fairseq_plugins.conversion.weights import Weights, model_of
from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.text.reading import read_text

NAME = "skip-retain"
ARCH = "transformer_xl_lm"
LOG = "log.txt"
# Options that the checkpoint does not hold, as log.txt writes them: those of the scripts for WikiText-103
SCRIPTS = {"mem_len": "512", "eval_tgt_len": "128", "activation_fn": "relu", "prenorm": "False"}
# Options of models that have the same parameters as others, but compute something else
DROPOUTS = {  # names here and there; there positions have no dropout, and the top layer's output has the embeddings'
    "dropout": "dropout",
    "attention_dropout": "dropatt",
    "embed_dropout": "emb_dropout",
    "output_dropout": "emb_dropout",
}
REFUSED = ("NL_ff_input", "apply_weights", "share_weight")

# Names there and here; some are as in adaptive-span
BIASES = {"content_bias": "body.biases.0.content", "positional_bias": "body.biases.0.position"}  # [H, D]
LAYER = {
    "attn.w_q.weight": "attention.q_proj.weight",  # [C, C]
    "attn.w_k.weight": "attention.k_proj.weight",
    "attn.w_v.weight": "attention.v_proj.weight",
    "attn.r_net.weight": "attention.position_proj.weight",
    "attn.w_o.weight": "attention.out_proj.weight",
    "norm1.weight": "attention_norm.weight",
    "norm1.bias": "attention_norm.bias",
    **FEED_FORWARD,
}
SCALES = {  # [H], with --learn_bias_scales
    "attn.content_bias_scales": "attention.bias_scales.content",
    "attn.positional_bias_scales": "attention.bias_scales.position",
}
FACTORIZED_IO = {
    "in_emb.weight": "embed.0.weight",  # [V, E]
    "factorized_inputs.weight": "embed.1.weight",  # [C, E]
    "factorized_inputs.bias": "embed.1.bias",
    "factorized_outputs.weight": "output.0.weight",  # [E, C]
    "factorized_outputs.bias": "output.0.bias",
    "out_emb.weight": "output.1.weight",
    "out_emb.bias": "output.1.bias",
}


def convert(checkpoint: Any, args: Namespace) -> Converted:
    weights, log = model_of(checkpoint, NAME), read_log(args.checkpoint.with_name(LOG))
    refuse(weights, log)
    weights.drop("inv_freq")
    scaled = any(name.endswith("bias_scales") for name in weights.left)
    layers = weights.count("layers.")
    state = weights.take_all(BIASES, dim=2) | weights.take_layers(LAYER | (SCALES if scaled else {}))
    io_options, io_state = take_io(weights)
    weights.finish()
    heads, head_dim = state[BIASES["content_bias"]].shape
    said = training_options(log, args)
    options: dict[str, Any] = {
        "decoder_layers": layers,
        "decoder_embed_dim": heads * head_dim,
        "decoder_ffn_embed_dim": len(state["body.layers.0.sublayer.fc1.bias"]),
        "decoder_attention_heads": heads,
        "mem_len": int(said["mem_len"]),
        "position_scheme": "last-token",
        "initial_memory": "zeros",
        "activation_fn": said["activation_fn"],
        "float32_frequencies": True,
        **dropouts(log),
        **io_options,
    }
    if said["prenorm"] == "True":
        options |= {"decoder_normalize_before": True, "normalised_residual": True}
    if scaled:
        options["learn_bias_scales"] = True
    there = args.checkpoint.with_name(LOG).is_file()
    lost = "has no options as this repository writes them" if there else "is not beside the checkpoint"
    notes = [] if log else [f"{LOG} {lost}, so this is assumed, or was given: {told(said)}"]
    return Converted(ARCH, options, state | io_state, int(said["eval_tgt_len"]), notes)


def read_log(path: Path) -> dict[str, str]:
    """The options in a log of a training, where each has a line " - name: value"; none if there is no file."""
    lines = read_text(path) if path.is_file() else []
    return {match[1]: match[2].strip() for line in lines if (match := re.fullmatch(r" - (\w+): (.*)", line.rstrip()))}


def refuse(weights: Weights, log: dict[str, str]) -> None:
    """Raises UserError for a model that this suite does not have."""
    for name in REFUSED:
        if log.get(name, "False") != "False":
            raise UserError(f"{LOG} says that the model has --{name}, which no model of this suite has.")
    if "content_bias.0" in weights:
        raise UserError("the checkpoint has heads of different widths (--variable_size_heads), as no model here has.")
    if "factorized_inputs.weight" in weights and "in_emb.weight" not in weights:
        raise UserError("the checkpoint has both --factorized_embedding and --adapt_io, as no model of this suite has.")


def training_options(log: dict[str, str], args: Namespace) -> dict[str, str]:
    """The values of the tool's flags, else of the log, else of the scripts. Raises UserError if the activation is none
    that this suite has, or a value in the log is none that this option can have."""
    given = {"mem_len": args.mem_len, "activation_fn": args.activation_fn, "prenorm": args.prenorm or None}
    said = {name: str(given.get(name) or log.get(name) or value) for name, value in SCRIPTS.items()}
    if said["activation_fn"] not in ACTIVATIONS:
        raise UserError(
            f"the model has the activation {said['activation_fn']}, which no model of this suite has; it has"
            f" {', '.join(ACTIVATIONS)}."
        )
    if said["prenorm"] not in ("True", "False"):
        raise UserError(f"{LOG} has prenorm {said['prenorm']}, which is neither True nor False; repair it.")
    if not said["mem_len"].isdecimal():
        raise UserError(f"{LOG} has mem_len {said['mem_len']}, which is no number; give --mem-len, or repair it.")
    if not said["eval_tgt_len"].isdecimal() or int(said["eval_tgt_len"]) < 1:
        raise UserError(f"{LOG} has eval_tgt_len {said['eval_tgt_len']}, which is no length of a block; repair it.")
    return said


def dropouts(log: dict[str, str]) -> dict[str, float]:
    """The dropouts of the log, for further training; none without a log. Raises UserError for one that is no number."""
    if not log.keys() >= set(DROPOUTS.values()):
        return {}
    try:
        return {"position_dropout": 0.0, **{ours: float(log[theirs]) for ours, theirs in DROPOUTS.items()}}
    except ValueError as error:
        raise UserError(f"{LOG} has a dropout that is no number ({error}); repair it.") from None


def told(said: dict[str, str]) -> str:
    """The options that the user may have to give, in words."""
    norm = "--prenorm" if said["prenorm"] == "True" else "no --prenorm"
    none = ", ".join(f"no --{name}" for name in REFUSED)
    return f"--mem-len {said['mem_len']}, --activation-fn {said['activation_fn']}, {norm}; {none}"


def take_io(weights: Weights) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Options and parameters of the input and the output layer."""
    if "in_emb.weight" not in weights:
        return take_adaptive_io(weights)
    if "factorized_inputs.weight" in weights:
        state = weights.take_all(FACTORIZED_IO)
        return {"factorized_embedding": state["embed.0.weight"].size(1)}, state
    return {"no_scale_embedding": True}, weights.take_all(PLAIN_IO)


def counted_vocabulary(train: Path, converted: Converted) -> Vocabulary:
    """By falling count: words in the training text, with ends of line; characters in all three texts, without."""
    if not all(word.isdecimal() or len(word) == 1 for word in words(train) if word != END_OF_LINE):
        return Vocabulary(by_count(words(train)), ends_lines=True)
    texts = [train, *(train.with_name(f"{name}.txt") for name in ("valid", "test"))]
    if missing := [text.name for text in texts if not text.is_file()]:
        raise UserError(
            f"--vocabulary {train}: characters were counted in train.txt, valid.txt and test.txt together, and"
            f" {missing[0]} is not beside it; put it there, or give data_corpus_sorted.pt."
        )
    return Vocabulary(by_count(word for word in words(*texts) if word != END_OF_LINE), ends_lines=False)


SOURCE = Source(
    NAME,
    convert,
    counted_vocabulary,
    symbols=("vocab", "idx2sym"),
    corpus_types=("data_process.Corpus", "data_process.Vocab"),
    flags=("mem_len", "activation_fn", "prenorm"),
)
