"""Gives each path in a command one spelling.

Records of a recipe hold commands. The same folder may be written as runs/x, /home/me/runs/x or through a link, and the
folder of --out may be moved: its place is written as $OUT.
"""

import os
import re

OPTION = re.compile(r"([\w-]+=)?(.*/.*)", re.DOTALL)  # a path, or NAME=PATH


def resolved(words: list[str]) -> list[str]:
    """The words, with resolved paths instead of paths."""
    return [word_resolved(word) for word in words]


def word_resolved(word: str) -> str:
    found = OPTION.fullmatch(word)
    if not found or found[2].startswith("$OUT/"):
        return word
    out, path = os.path.realpath(os.environ.get("OUT", ".")), os.path.realpath(found[2])
    inside = path == out or path.startswith(f"{out}/")
    return (found[1] or "") + (f"$OUT/{os.path.relpath(path, out)}" if inside else path)
