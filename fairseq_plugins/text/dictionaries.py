"""The dictionaries of a data folder: which symbols a model reads and writes, and in which order.

Only symbols and their order matter to a model. How often each occurs differs as soon as there is more text.
"""

import hashlib
import os
from pathlib import Path

PATTERNS = ("dict*.txt", "input*/dict*.txt", "label*/dict*.txt")  # the folders are of sentence_prediction
OVERWRITE = b" #fairseq:overwrite"


def names(folder: Path) -> list[str]:
    """All dictionaries of a folder, by their names in it."""
    return sorted(str(path.relative_to(folder)) for pattern in PATTERNS for path in folder.glob(pattern))


def of_task(folder: Path, languages: tuple[str, str] | None) -> dict[str, str]:
    """The names of the dictionaries that a task reads in a folder, by their use: source, target, label.

    Args:
        languages: of a translation, source first
    """
    found = names(folder)
    if languages:
        sides = dict(zip(("source", "target"), (f"dict.{language}.txt" for language in languages)))
    elif "input0/dict.txt" in found:
        sides = {"source": "input0/dict.txt", "label": "label/dict.txt"}
    else:
        sides = {"source": "dict.txt"} if "dict.txt" in found else {name: name for name in found}
    return {side: name for side, name in sides.items() if name in found}


def checksum(dictionary: Path) -> str:
    """The SHA-256 of the symbols in their order."""
    return hashlib.sha256(b"\n".join(symbols(dictionary))).hexdigest()


def symbols(dictionary: Path) -> list[bytes]:
    """Without how often they occur."""
    lines = dictionary.read_bytes().replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    return [line.rstrip().removesuffix(OVERWRITE).rsplit(b" ", 1)[0] for line in lines]


def differ(one: Path, other: Path) -> bool:
    """Are both dictionaries there, with different symbols?"""
    both = one.is_file() and other.is_file()
    return both and not os.path.samefile(one, other) and symbols(one) != symbols(other)


def first_difference(one: Path, other: Path) -> str | None:
    """The name of a dictionary that two folders have with different symbols."""
    return next((name for name in names(other) if differ(one / name, other / name)), None)
