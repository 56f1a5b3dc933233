"""Find raw files by their names."""

import os
from collections.abc import Iterator
from pathlib import Path

from fairseq_plugins.files.compressed import ENDINGS
from lib.steps import UserError


def file(raw: Path, name: str) -> Path | None:
    """The file of that name, compressed or not, in ``raw``, or else in a folder below it; None if there is none.

    Raises:
        UserError: several folders have one
    """
    found = together(raw, [name])
    return found[0] if found else None


def together(raw: Path, names: list[str]) -> list[Path] | None:
    """The files of these names, compressed or not, in one folder: in ``raw``, or else in one below it.

    Raises:
        UserError: several folders have them
    """
    found = []
    for folder in folders(raw):
        files = [plain_or_compressed(folder / name) for name in names]
        if all(files):
            found.append(files)
            if folder == raw:
                break
    if len(found) > 1:
        raise UserError(
            f"--raw {raw} has {found[0][0]} and {found[1][0]}: take one of them away, or give the folder of the other."
        )
    return found[0] if found else None


def folders(raw: Path) -> Iterator[Path]:
    """``raw``, and the folders below it in the order of their names, but not hidden ones. Where links lead to one
    folder twice, it comes once."""
    seen = set()
    for folder, below, _ in os.walk(raw, followlinks=True):
        below[:] = sorted(name for name in below if not name.startswith("."))
        real = os.path.realpath(folder)
        if real in seen:
            below.clear()
        else:
            seen.add(real)
            yield Path(folder)


def plain_or_compressed(path: Path) -> Path | None:
    names = (path.name + ending for ending in ("", *ENDINGS))
    return next((file for name in names if (file := path.with_name(name)).is_file()), None)
