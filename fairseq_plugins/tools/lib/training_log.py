"""Read the log of fairseq-train --log-format json."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_plugins.errors import UserError

LINE = re.compile(r"\| (train_inner|valid) \| (\{.*\})\s*$")


@dataclass
class TrainingLog:
    """Entries in the order of their updates. Each has "num_updates"; fairseq's prefix "valid_" is removed from names.

    If a training was resumed from an earlier update, its new entries replace the old ones.
    """

    train: list[dict[str, float]] = field(default_factory=list)
    valid: list[dict[str, float]] = field(default_factory=list)

    def series(self, split: str, name: str) -> tuple[list[float], list[float]]:
        """The updates with an entry ``name``, and its values. ``split`` is "train" or "valid"."""
        entries = [entry for entry in getattr(self, split) if name in entry]
        return [entry["num_updates"] for entry in entries], [entry[name] for entry in entries]

    def names(self, pattern: str) -> list[str]:
        """The names in training entries that match a pattern, in the order of the numbers in them."""
        found = {name for entry in self.train for name in entry if re.fullmatch(pattern, name)}
        return sorted(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def read(run: Path) -> TrainingLog:
    """The log of a run: a file, or a folder with train.log in it.

    Raises:
        UserError: there is no log, or it has no entries in JSON
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
