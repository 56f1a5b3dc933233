"""Write files completely or not at all."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairseq_plugins.errors import UserError


class NotWritten(UserError):
    """The system could not write a file. An earlier file of this name is unchanged."""


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write(temporary_path)``, and rename its file to ``path`` (see ``replacing``).

    Raises:
        NotWritten: the file could not be written
    """
    try:
        if path.exists() and not path.is_file():
            raise NotWritten(f"{path} is a folder or a device, which no file replaces; give the name of a file.")
        with replacing(path) as temporary:
            write(temporary)
    except OSError as error:
        raise NotWritten(f"{path} could not be written ({error.strerror or error}).") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path. At the end of the context its file is flushed to the disk and renamed to ``path``.

    After an error the temporary file is removed, and an earlier file at ``path`` is unchanged.

    Raises:
        OSError: the system could not write the file
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        flush(temporary)
        os.replace(temporary, path)
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
