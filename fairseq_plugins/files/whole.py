"""Write files completely or not at all."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairseq_plugins.errors import UserError


class NotWritten(UserError):
    """The system could not write a file. An earlier file of this name is unchanged."""


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write(temporary_path)``, and rename its file to ``path`` (see ``replacing``). Raises NotWritten."""
    try:
        if path.exists() and not path.is_file():
            raise NotWritten(f"{path} is a folder or a device, which no file replaces; give the name of a file.")
        with replacing(path) as (temporary,):
            write(temporary)
    except OSError as error:
        raise NotWritten(f"{path} could not be written ({error.strerror or error}).") from error


@contextmanager
def replacing(*paths: Path) -> Iterator[list[Path]]:
    """A temporary path for each file or folder. At the end of the context all are flushed to the disk and renamed.

    A folder replaces an empty folder only. After an error the temporary files are removed, and so are new folders above
    them; earlier files are unchanged. Raises OSError if the system could not write a file."""
    temporary = [path.with_name(f"{path.name}.{os.getpid()}.partial") for path in paths]
    above = [parent for path in paths for parent in path.parents if not parent.exists()]
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        for path in temporary:
            for file in content(path):
                flush(file)
        for path, new in zip(paths, temporary):
            os.replace(new, path)
    finally:
        with suppress(OSError):  # nothing can be removed where nothing can be written
            for path in temporary:
                remove(path)
        with suppress(OSError):  # with the new files they are not empty
            for folder in above:
                folder.rmdir()
    for path in paths:
        with suppress(OSError):  # some file systems cannot flush a folder
            flush(path.parent)


def content(path: Path) -> Iterable[Path]:
    """The file, or all files and folders in the folder."""
    return path.rglob("*") if path.is_dir() else [path]


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with its content, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def followed(path: Path) -> Path:
    """The file that a link leads to, which need not be there; the path itself if it is no link. Raises NotWritten if
    the link leads in a circle."""
    if not path.is_symlink():
        return path
    with contextlib.suppress(RuntimeError):  # of a circle, before Python 3.13
        if not (end := path.resolve()).is_symlink():
            return end
    raise NotWritten(f"{path} is a link that leads in a circle; give the name of a file.")


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk and would survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Raises NotWritten."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, content) -> None:
    """Raises NotWritten."""
    write_text(path, json.dumps(content, indent=1) + "\n")
