"""What fairseq-train logged with --log-format json, as numbers."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_plugins.errors import UserError

LINE = re.compile(r"\| (train_inner|valid) \| (\{.*\})\s*$")


@dataclass
class TrainingLog:
    """Entries in the order of their updates, each with "num_updates"; names are without the "valid_" of fairseq.

    Where a training was resumed from an earlier update, the entries that it made anew replace the old ones.
    """

    train: list[dict[str, float]] = field(default_factory=list)
    valid: list[dict[str, float]] = field(default_factory=list)

    def series(self, split: str, name: str) -> tuple[list[float], list[float]]:
        """Updates, and the values of ``name`` at them, of "train" or "valid"."""
        entries = [entry for entry in getattr(self, split) if name in entry]
        return [entry["num_updates"] for entry in entries], [entry[name] for entry in entries]

    def names(self, pattern: str) -> list[str]:
        """Names in the training entries that match, in order of the numbers in them."""
        found = {name for entry in self.train for name in entry if re.fullmatch(pattern, name)}
        return sorted(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def read(run: Path) -> TrainingLog:
    """The log of a run: a file, or a folder with train.log in it.

    Raises:
        UserError: there is none, or nothing in it is in JSON
    """
    path = run / "train.log" if run.is_dir() else run
    if not path.is_file():
        raise UserError(f"{path} does not exist; give a log of fairseq-train --log-format json, or its folder.")
    log = TrainingLog()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if found := LINE.search(line):
            _add(log.train if found[1] == "train_inner" else log.valid, json.loads(found[2]))
    if not log.train and not log.valid:
        raise UserError(f"{path} holds no entries in JSON; train with --log-format json.")
    return log


def _add(entries: list[dict], logged: dict) -> None:
    entry = {}
    for name, value in logged.items():
        try:
            entry[name.removeprefix("valid_")] = float(value)
        except (TypeError, ValueError):
            continue  # "wps": "n/a" and the like
    while entries and entries[-1]["num_updates"] >= entry["num_updates"]:
        entries.pop()
    entries.append(entry)
