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
from typing import NoReturn

import say

from fairseq_plugins.files.reading import parse_json
from fairseq_plugins.files.steps import Step

OPTION = re.compile(r"([\w-]+=)?(.*/.*)", re.DOTALL)  # a path, or NAME=PATH

GROUPS = re.compile("([0-9]+) groups of ([0-9]+) streams")


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


def training(folder: Path) -> Step:
    """The training in a folder. The options in its stamp, which is written when the training begins, are those that it
    began with. They may differ by machine from those of a later call, so FOLDER/trained alone marks the end."""
    step = Step("trained", folder, [], [folder / "trained"], {})
    found = step.read()
    if step.stamp.exists() and not (found and isinstance(found.get("options"), dict)):
        damaged(step.stamp)
    step.options = found["options"] if found else of_earlier_versions(folder)
    return step


def of_earlier_versions(folder: Path) -> dict:
    """What earlier versions wrote of a training, each in a file of its own."""
    files = {name: folder / name for name in ("settings", "data", "flags", "precision", "split_streams")}
    found = {name: file.read_text().rstrip("\n") for name, file in files.items() if file.is_file()}
    if "settings" in found:
        found["settings"] = found["settings"].splitlines()
    if "flags" in found:
        try:
            found["flags"] = parse_json(found["flags"])
        except ValueError:
            damaged(files["flags"])
    if groups := GROUPS.match(found.pop("split_streams", "")):
        found["groups"] = {groups[2]: int(groups[1])}
    return found


def damaged(file: Path) -> NoReturn:
    say.stop(f"{file} is damaged: remove it if this call has the options of that training, or give an --out elsewhere.")


def other_data(before: str, data: str) -> bool:
    """Whether a training that noted the checksum ``before`` began with other data than those in the folder ``data``.
    Earlier versions looked at fewer files."""
    if not before:
        return False
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
