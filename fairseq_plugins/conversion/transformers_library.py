"""Checkpoints of TransfoXL in the library transformers, up to version 4.35: a folder with pytorch_model.bin and
config.json. The published one, transfo-xl-wt103, has the weights of Dai et al.'s TensorFlow model."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from fairseq_plugins.conversion.sources import Converted, Source
from fairseq_plugins.conversion.transformer_xl import counted_vocabulary
from fairseq_plugins.conversion.weights import Weights
from fairseq_plugins.conversion.xl import ARCH, BLOCK, Words, take_xl
from fairseq_plugins.errors import UserError

NAME = "transformers"
WEIGHTS, CONFIG = "pytorch_model.bin", "config.json"
SAFE_WEIGHTS = "model.safetensors"
PREFIX = "transformer."  # of all that is not of the output layer
EPSILON = 1e-5  # of layer norms here
# Of config.json, if it is not there
DEFAULTS: dict[str, Any] = {
    "pre_lnorm": False, "mem_len": 1600, "clamp_len": 1000, "same_length": True, "dropout": 0.1, "dropatt": 0.0,
    "attn_type": 0, "layer_norm_epsilon": EPSILON, "tie_word_embeddings": True, "cutoffs": [20000, 40000, 200000],
    "d_model": 1024, "d_embed": 1024, "div_val": 4,
}  # fmt: skip


def file_of(path: Path) -> Path:
    """That of the weights in a folder. Raises UserError if they are in another format."""
    found = path / WEIGHTS if path.is_dir() else path
    if found.suffix == ".safetensors" or not found.is_file() and found.with_name(SAFE_WEIGHTS).is_file():
        raise UserError(
            f"{found.with_name(SAFE_WEIGHTS)} is not read here; in {NAME} save the model again as {WEIGHTS}, with"
            " save_pretrained(folder, safe_serialization=False)."
        )
    return found


def convert(checkpoint: Any, args: Namespace) -> Converted:
    config = read_config(args.checkpoint.with_name(CONFIG))
    if config["attn_type"] or config["layer_norm_epsilon"] != EPSILON:
        raise UserError(
            f"{CONFIG} has attn_type {config['attn_type']} and layer_norm_epsilon {config['layer_norm_epsilon']}; only"
            f" models with 0 and {EPSILON} can be converted."
        )
    weights = Weights(checkpoint, NAME, PREFIX)
    form = Words(config["d_model"], config["d_embed"], config["cutoffs"], config["div_val"], reverse_clusters=False)
    tie(weights, config)
    options, state, notes = take_xl(weights, form)
    options |= {
        "decoder_normalize_before": config["pre_lnorm"],
        "mem_len": config["mem_len"],
        "clamp_len": config["clamp_len"],
        "same_length": config["same_length"],
        "initial_memory": "zeros",
        "attention_dropout": float(config["dropatt"]),
        **dict.fromkeys(("dropout", "embed_dropout", "output_dropout"), float(config["dropout"])),
    }
    return Converted(ARCH, options, state, BLOCK, notes)


def read_config(path: Path) -> dict[str, Any]:
    """config.json with the library's defaults. Raises UserError if it is missing, unreadable, or of another model."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); put it beside the weights.") from error
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); get it again.") from error
    if not isinstance(found, dict) or found.get("model_type", "transfo-xl") != "transfo-xl":
        raise UserError(f"{path} is not the configuration of a TransfoXL model; check --from.")
    config = DEFAULTS | found
    for name, default in DEFAULTS.items():
        fits = isinstance(config[name], int | float) if type(default) is float else type(config[name]) is type(default)
        if not fits:
            raise UserError(f"{path} has {name} {config[name]!r}, which does not fit; get it again.")
    shared = config.get("proj_share_all_but_first", True) is True
    config.setdefault("tie_projs", [False] + [shared] * len(config["cutoffs"]))
    return config


def tie(weights: Weights, config: dict[str, Any]) -> None:
    """Make the output layer share the input's parameters that config.json says it shares, of which a file may lack
    copies. Raises UserError if two copies differ."""
    pairs = []
    if config["tie_word_embeddings"]:
        layers = range(weights.count("word_emb.emb_layers."))
        pairs += [(f"word_emb.emb_layers.{layer}.weight", f"crit.out_layers.{layer}.weight") for layer in layers]
    one = config["div_val"] == 1  # one projection for all clusters
    if not one or config["d_model"] != config["d_embed"]:
        tied = [cluster for cluster, tied in enumerate(config["tie_projs"]) if tied]
        pairs += [(f"word_emb.emb_projs.{0 if one else cluster}", f"crit.out_projs.{cluster}") for cluster in tied]
    for name, copy in pairs:
        weights.check_same(name, copy)
        if name in weights:
            weights.left.setdefault(copy, weights.left[name])


SOURCE = Source(NAME, convert, counted_vocabulary, symbols=("idx2sym",), file_of=file_of)  # of vocab.bin
