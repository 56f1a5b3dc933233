"""The records of a recipe: the commands of earlier calls, and the data that they read.

A path has one spelling there. The same folder may be written as runs/x, /home/me/runs/x or through a link, and the
folder of --out may be moved: its place is written as $OUT. The checksum of a prepared corpus is kept by trainings and
scores, which are done for the same data only.
"""

import os
import re
import subprocess
from functools import cache
from pathlib import Path

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


def differs_from_training(folder: Path, data: str) -> bool:
    """Whether a training in the folder began with other data. Earlier versions looked at fewer files."""
    file = folder / "data"
    if not data or not file.is_file():
        return False
    before = file.read_text().strip()
    if before.startswith("all "):
        return before != data_checksum(data)
    return before != checksum([*Path(data).glob("bin/dict*.txt"), *Path(data).glob("bin/*.idx")])


@cache
def data_checksum(data: str) -> str:
    """The checksum of the files that training and scoring read: binarised text, dictionaries, and raw references. It is
    empty without data."""
    if not data:
        return ""
    kinds = ("bin/**/dict*.txt", "bin/**/*.idx", "bin/**/*.bin", "*.ref")
    return f"all {checksum([file for kind in kinds for file in Path(data).glob(kind)])}"


def checksum(files: list[Path]) -> str:
    with subprocess.Popen(["cat", "/dev/null", *sorted(files)], stdout=subprocess.PIPE) as content:
        return subprocess.run("cksum", stdin=content.stdout, capture_output=True, text=True, check=True).stdout.strip()
