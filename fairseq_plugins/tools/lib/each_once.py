"""A check of the files of several runs: none may count twice."""

from pathlib import Path

from fairseq_plugins.errors import UserError


def each_once(flag: str, paths: list[Path]) -> list[Path]:
    """The paths, if no two of them are the same file.

    Args:
        flag: their flag or name, for the error

    Raises:
        UserError: two are the same; as two runs they would show a spread that is too small
    """
    seen = set()
    for path in paths:
        if path.resolve() in seen:
            raise UserError(f"{flag}: {path} is named twice; give each run once.")
        seen.add(path.resolve())
    return paths
