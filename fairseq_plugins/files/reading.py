"""Read files that a user names."""

import json
from argparse import ArgumentTypeError
from pathlib import Path

from fairseq_plugins.errors import UserError

BEST, LAST = "checkpoint_best.pt", "checkpoint_last.pt"
WEIGHTS = "model.safetensors"  # of an exported model, see files/exported.py
FORMATS = ("torch", "safetensors")  # of the weights of an export
PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")  # those of a shell have somebody who writes to them


def regular(path: Path) -> Path:
    """The path, if there is a file, or nothing. Raises UserError if it is something else: a folder, or a pipe or a
    device, which may never end."""
    if path.exists() and not path.is_file() and not str(path).startswith(PIPES):
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise UserError(f"{path} is {kind}; name a file.")
    return path


def best_or_last(folder: Path) -> Path | None:
    """The best checkpoint of a training, else its last one, else the weights of an exported model; None if the folder
    has none of them."""
    return next((folder / name for name in (BEST, LAST, WEIGHTS) if (folder / name).is_file()), None)


def checkpoint(text: str) -> Path:
    """The path of a checkpoint; for a folder, that of ``best_or_last``. Raises ArgumentTypeError if it has none."""
    path = Path(text)
    if not path.is_dir():
        return path
    if (found := best_or_last(path)) is None:
        raise ArgumentTypeError(f"{path} has none of {BEST}, {LAST} and {WEIGHTS}; name a checkpoint in it")
    return found


def parse_json(text: str, **options):
    """The content of JSON. Raises ValueError if it is none, or its parts are nested too deeply."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("its parts are nested too deeply") from None
