"""A checksum of a prepared corpus. Trainings and scores keep it, and count as done for the same data only."""

import subprocess
from functools import cache
from pathlib import Path


def differs_from_training(folder: Path, data: str) -> bool:
    """Whether a training in the folder began with other data. Earlier versions looked at fewer files."""
    file = folder / "data"
    if not data or not file.is_file():
        return False
    before = file.read_text().strip()
    if before.startswith("all "):
        return before != of(Path(data))
    return before != checksum([*Path(data).glob("bin/dict*.txt"), *Path(data).glob("bin/*.idx")])


@cache
def of(data: Path) -> str:
    """The checksum of what is read in training and scoring: text in numbers, dictionaries, and raw references."""
    kinds = ("bin/**/dict*.txt", "bin/**/*.idx", "bin/**/*.bin", "*.ref")
    return f"all {checksum([file for kind in kinds for file in data.glob(kind)])}"


def checksum(files: list[Path]) -> str:
    with subprocess.Popen(["cat", "/dev/null", *sorted(files)], stdout=subprocess.PIPE) as content:
        return subprocess.run("cksum", stdin=content.stdout, capture_output=True, text=True, check=True).stdout.strip()
