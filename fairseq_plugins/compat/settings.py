"""Patches that treat the settings in a checkpoint as data. They run no code and no shell command, and they name no file
to write, no module to import and no place to fetch from."""

import argparse
import contextlib
import shlex
import sys
from collections.abc import Iterator
from typing import Any, cast

from fairseq import checkpoint_utils, file_utils
from fairseq.data import encoders
from fairseq.data.encoders.gpt2_bpe import DEFAULT_ENCODER_JSON, DEFAULT_VOCAB_BPE
from fairseq.data.fasta_dataset import FastaDataset
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from fairseq_plugins.compat.patch import replace
from fairseq_plugins.options.literals import evaluate
from fairseq_plugins.options.withheld import PLACE, given_back, name_more, refuse_withheld, registered, withhold

# Settings of fairseq that name files to write, programs to run or folders to import, and their replacements.
UNSET = {
    "save_predictions": None,
    "tensorboard_logdir": None,
    "post_save_script": None,
    "user_dir": None,
    "use_plasma_view": False,  # starts a server
}
# Encoders that fetch their files if these settings do not name them.
FETCHED_BY_GPT2 = (DEFAULT_ENCODER_JSON, DEFAULT_VOCAB_BPE)
FETCHING = {"gpt2": ("gpt2_encoder_json", "gpt2_vocab_bpe"), "bert": ("bpe_vocab_file",)}


def settings_are_data():
    """fairseq calls ``eval`` on strings of a configuration, such as "[(512, 3)] * 4". A checkpoint contains its
    configuration and the name of the architecture that reads it, so loading a checkpoint could run any code. The patch
    replaces ``eval`` in every module of fairseq by ``evaluate``, which computes numbers, lists and the like only."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("fairseq", "fairseq_cli"):
            vars(module)["eval"] = evaluate


def names_are_no_commands():
    """fairseq reads a FASTA file with shell commands that contain the file's name, parts of which may come from a
    checkpoint. The patch quotes the name."""

    @replace(FastaDataset, "_build_index")
    def build_index(original, self, path):
        return original(self, shlex.quote(path))


def checkpoints_name_nothing():
    """Settings of a checkpoint can name files that fairseq writes or empties when it builds the task and the criterion,
    a server that it starts, a URL that it fetches, and a module: gymnasium (1.4.0) imports the module before the colon
    of an environment's name. The patch unsets the names of outputs and programs in a loaded checkpoint. It withholds
    names of things to import or to fetch, unless the user gave the same by a flag or an argument. The use of a withheld
    name is an error of one sentence."""

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, path, arg_overrides=None, *args, **kwargs):
        state = original(path, arg_overrides, *args, **kwargs)
        if isinstance(state, dict):
            for part in ("cfg", "args"):  # fairseq keeps both of an old checkpoint, and uses both
                forget_names(state.get(part), arg_overrides or {})
        return state

    @replace(file_utils, "cached_path")
    def cached_path(original, url_or_filename, *args, **kwargs):
        refuse_withheld(url_or_filename)
        return original(url_or_filename, *args, **kwargs)

    @replace(encoders, "build_bpe")
    def build_bpe(original, cfg, *args, **kwargs):
        refuse_withheld(cfg if isinstance(cfg, str) else getattr(cfg, "_name", None) or getattr(cfg, "bpe", None))
        return original(cfg, *args, **kwargs)


def forget_names(settings, given: dict, inside="") -> None:
    """Unset or withhold the names in the settings of a checkpoint, in all their parts.

    Args:
        given: the user's values by name
        inside: name of the settings
    """
    for holder, name, value in list(entries(settings)):
        if name in given and given[name] == value:
            continue
        if name in UNSET:
            put(holder, name, UNSET[name])
        elif isinstance(value, str):
            meant = "bpe" if (inside, name) == ("bpe", "_name") else name
            stays = kept_part(settings, meant, given_back(value), given)
            if stays != value:
                put(holder, name, stays)
        else:
            forget_names(value, given, name)


def kept_part(settings, name, value: str, given: dict) -> str:
    """The part of a setting from the file that stays."""
    if given.get(name) == value or given.get("bpe") == "gpt2" and value in FETCHED_BY_GPT2:
        return value
    if name == "environment" and ":" in value:
        _, _, environment = value.rpartition(":")
        return environment if registered(environment) else withhold(name, value)
    if name == "bpe" and value in FETCHING:
        files = {each: file for _, each, file in entries(settings) if file and not PLACE.search(str(file))}
        return value if all(map(files.get, FETCHING[value])) else withhold(name, value)
    more = name_more(value) if name == "environment_settings" else PLACE.search(value)
    return withhold(name, value) if more else value


def entries(settings) -> Iterator[tuple[Any, Any, Any]]:
    """The holder, name and value of each entry of a mapping or list; of an interpolation, the text that it makes."""
    if isinstance(settings, argparse.Namespace):
        settings = vars(settings)
    if isinstance(settings, dict | list):
        pairs = settings.items() if isinstance(settings, dict) else enumerate(settings)
        yield from ((settings, name, value) for name, value in pairs)
    elif isinstance(settings, DictConfig | ListConfig) and not settings._is_none():
        for name in settings if isinstance(settings, DictConfig) else range(len(settings)):
            if not OmegaConf.is_missing(settings, name):
                yield settings, name, value_of(settings, name)


def value_of(settings: DictConfig | ListConfig, name):
    """An interpolation may refer to other settings, which are checked in their own place, or to nothing."""
    if not OmegaConf.is_interpolation(settings, name):
        return settings[name]
    with contextlib.suppress(OmegaConfBaseException):
        return value if isinstance(value := settings[name], str) else None
    return str(cast(Any, settings)._get_node(name)._value())


def put(holder, name, value) -> None:
    with open_dict(holder) if isinstance(holder, DictConfig) else contextlib.nullcontext():
        holder[name] = value
