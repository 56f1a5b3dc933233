"""A checkpoint in two files: its weights as safetensors, and everything else in ``config.json`` beside them.

``config.json`` lists the files of the folder with their SHA-256, and ends with its own. Weights that share memory are
stored once; ``tied`` gives their other names.
"""

import os
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_plugins.errors import UserError, one_line
from fairseq_plugins.files.checksums import opened_json, sealed_json, sha256
from fairseq_plugins.files.reading import BEST, WEIGHTS
from fairseq_plugins.files.whole import NotWritten

CONFIG = "config.json"
SETTINGS = "Namespace"  # a JSON object with this one name is a namespace of argparse
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


def write_weights(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the weights of a checkpoint into a folder.

    Returns:
        what ``config.json`` has to hold beside them

    Raises:
        UserError: safetensors is not installed, or the checkpoint holds more than plain types beside tensors
        NotWritten: the system could not write the file
    """
    library = _safetensors()
    others = {name: value for name, value in state.items() if name != "model"}
    own, tied = _once(state["model"])
    content = {"tied": tied, "checkpoint": _plain(others)}
    try:
        library.torch.save_file(own, folder / WEIGHTS, metadata={"format": "pt"})
    except (OSError, library.SafetensorError) as error:
        raise NotWritten(f"{folder / WEIGHTS} could not be written ({one_line(error)}).") from error
    return content


def write_config(content: dict[str, Any], folder: Path) -> None:
    """Write ``config.json`` into a folder that has all its other files."""
    files = {name: sha256(folder / name) for name in names(folder)}
    (folder / CONFIG).write_bytes(sealed_json({**content, "files": files}))
    if WEIGHTS in files:  # safetensors lets nobody else read what it writes
        shutil.copymode(folder / CONFIG, folder / WEIGHTS)


def read(weights: Path) -> dict[str, Any]:
    """The checkpoint whose weights are in this file.

    Raises:
        UserError: ``config.json`` is missing, a file is damaged, or safetensors is not installed
    """
    config = weights.parent / CONFIG
    if not config.is_file():
        raise UserError(f"{config}, which {weights} needs, is missing: copy it from the folder of the export.")
    try:
        content = opened_json(config.read_bytes())
        checksum, tied, state = content["files"][weights.name], content["tied"], _unplain(content["checkpoint"])
        if sha256(weights) != checksum:
            raise UserError(f"{weights} is damaged, or not the file of {config}: copy both, or export the model again.")
        tensors = _safetensors().torch.load_file(weights)
        return {**state, "model": {**tensors, **{name: tensors[first] for name, first in tied.items()}}}
    except UserError:
        raise
    except DAMAGE as error:
        why = f" ({one_line(error)})" if isinstance(error, ValueError) else ""  # others speak of Python's types
        raise UserError(f"{config} is damaged{why}: copy it, or export the model again.") from error


def refuse_incomplete(folder: Path) -> None:
    """Raises UserError if a folder is an export that lacks a file beside its weights: its text is then not looked for
    elsewhere, where another may be."""
    try:
        files = opened_json((folder / CONFIG).read_bytes())["files"]
    except (OSError, *DAMAGE):  # it is no export, or it is told where config.json is read
        return
    if missing := [name for name in files if name not in (BEST, WEIGHTS) and not (folder / name).exists()]:
        raise UserError(
            f"{folder / missing[0]}, which the model in this folder needs, is missing: copy it from the folder of the"
            " export, or export the model again."
        )


def is_export(folder: Path) -> bool:
    """Does a folder hold an export and nothing else?"""
    if any(not folders and not files for _, folders, files in os.walk(folder)):
        return False  # an empty folder is somebody else's
    try:
        return names(folder) == sorted(opened_json((folder / CONFIG).read_bytes())["files"])
    except (OSError, *DAMAGE):
        return False


def names(folder: Path) -> list[str]:
    """The files of a folder and of those in it, without ``config.json``."""
    found = (Path(at, name).relative_to(folder) for at, _, files in os.walk(folder) for name in files)
    return sorted(str(path) for path in found if str(path) != CONFIG)


def _once(model: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The weights without those that are tied to an earlier one, and the names of these with those of the earlier."""
    own: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    first: dict[tuple, str] = {}
    for name, tensor in model.items():
        if not isinstance(tensor, Tensor):
            raise UserError(f"{name} of the model is no tensor, as safetensors needs it; take the format torch.")
        # the address of empty tensors is 0
        key = (tensor.data_ptr() or name, tensor.device, tensor.dtype, tensor.shape, tensor.stride())
        if key in first:
            tied[name] = first[key]
        else:
            first[key] = name
            own[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)  # a part of a larger one
    return own, tied


def _plain(value):
    """Settings in types of JSON."""
    if isinstance(value, Namespace):
        return {SETTINGS: _plain(vars(value))}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise UserError(f"the model has a setting of type {type(value).__name__}, which JSON lacks; take the format torch.")


def _unplain(value):
    if isinstance(value, dict):
        content = {name: _unplain(each) for name, each in value.items()}
        return Namespace(**content[SETTINGS]) if content.keys() == {SETTINGS} else content
    return [_unplain(each) for each in value] if isinstance(value, list) else value


def _safetensors():
    try:
        import safetensors.torch
    except ImportError:
        raise UserError("safetensors is not installed: pip install safetensors, or take the format torch.") from None
    return safetensors
