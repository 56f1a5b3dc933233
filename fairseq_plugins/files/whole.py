"""Write files completely or not at all."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fairseq_plugins.errors import UserError


class NotWritten(UserError):
    """The system could not write a file. An earlier file of this name is unchanged."""


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Call ``write(temporary_path)``, flush its file to the disk, and rename it to ``path``.

    If anything fails, an earlier file at ``path`` is unchanged, and the temporary file is removed.

    Raises:
        NotWritten: the file could not be written
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        if path.exists() and not path.is_file():
            raise NotWritten(f"{path} is a folder or a device, which no file replaces; give the name of a file.")
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        flush(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise NotWritten(f"{path} could not be written ({error.strerror or error}).") from error
    finally:
        with suppress(OSError):  # there is none where the folder is none
            temporary.unlink(missing_ok=True)
    with suppress(OSError):  # some file systems cannot flush a folder
        flush(path.parent)


def followed(path: Path) -> Path:
    """The file that a link leads to, which need not be there; the path itself if it is no link.

    Raises:
        NotWritten: the link leads in a circle
    """
    if not path.is_symlink():
        return path
    try:
        return path.resolve()
    except RuntimeError as error:
        raise NotWritten(f"{path} is a link that leads in a circle; give the name of a file.") from error


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk and would survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content) -> None:
    write_whole(path, lambda temporary: temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8"))
