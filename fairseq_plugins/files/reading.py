"""Read files that a user names."""

import json
from pathlib import Path

from fairseq_plugins.errors import UserError

PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")  # those of a shell have somebody who writes to them


def regular(path: Path) -> Path:
    """The path, if there is a file, or nothing. Raises UserError if it is something else: a folder, or a pipe or a
    device, which may never end."""
    if path.exists() and not path.is_file() and not str(path).startswith(PIPES):
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise UserError(f"{path} is {kind}; name a file.")
    return path


def parse_json(text: str, **options):
    """The content of JSON. Raises ValueError if it is none, or its parts are nested too deeply."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("its parts are nested too deeply") from None
