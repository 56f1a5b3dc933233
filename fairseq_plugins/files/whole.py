"""Files that are whole or not there."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fairseq_plugins.errors import UserError


class NotWritten(UserError):
    """The system cannot write a file; what had its name before is as it was."""


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Call ``write(temporary_path)``, flush its file to the disk, and give it the name ``path``.

    Whatever fails, a file that has that name already stays as it is, and nothing else is left behind.

    Raises:
        NotWritten: with the file and why
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        flush(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise NotWritten(f"{path} could not be written ({error.strerror or error}).") from error
    finally:
        temporary.unlink(missing_ok=True)
    with suppress(OSError):  # not every file system can flush a folder
        flush(path.parent)


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, where they outlive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content) -> None:
    write_whole(path, lambda temporary: temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8"))
