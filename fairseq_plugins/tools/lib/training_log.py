"""Read the log of a training: the output of fairseq-train, or its --log-file."""

import re
from dataclasses import dataclass, field
from math import isfinite, nan
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib.log_lines import read_line

WHERE = "the log is the file of fairseq-train --log-file runs/a/train.log, or its output in a file"


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

    def has(self, name: str) -> bool:
        return any(name in entry for entry in self.train + self.valid)

    def whole(self, names: list[str]) -> list[dict[str, float]]:
        """The training entries in which all of these are numbers, and finite."""
        return [entry for entry in self.train if all(isfinite(entry.get(name, nan)) for name in names)]

    def names(self, pattern: str) -> list[str]:
        """The names in training entries that match a pattern, in the order of the numbers in them."""
        found = {name for entry in self.train for name in entry if re.fullmatch(pattern, name)}
        return sorted(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def read(run: Path) -> TrainingLog:
    """The log of a run: a file, or a folder with train.log or another .log in it. Where there are no entries within
    epochs, the means of the epochs are taken.

    Raises:
        UserError: there is no log, or it has no metrics
    """
    path = log_of(run)
    found: dict[str, list[dict[str, float]]] = {"inner": [], "train": [], "valid": []}
    for line in whole_lines(path.read_text(encoding="utf-8", errors="replace")):
        if (entry := read_line(line)) and "num_updates" in entry.values:
            for kind, entries in found.items():
                _drop_later(entries, entry.values["num_updates"], same=kind == entry.kind)
            found[entry.kind].append(entry.values)
    if not any(found.values()):
        raise UserError(f"{path} holds no metrics of a training: {WHERE} (but --log-format none writes none).")
    return TrainingLog(found["inner"] or found["train"], found["valid"])


def read_if_there(run: Path) -> TrainingLog:
    """The log of a run, without entries if its folder has none.

    Raises:
        UserError: the run does not exist, or its log has no metrics
    """
    return read(run) if find_log(run) or not run.is_dir() else TrainingLog()


def log_of(run: Path) -> Path:
    """The log in a folder, or the log itself.

    Raises:
        UserError: there is none
    """
    if log := find_log(run):
        return log
    if run.is_dir():
        raise UserError(f"{run} has no train.log: {WHERE}; a training that kept none has to be run again.")
    raise UserError(f"{run} does not exist: {WHERE}.")


def find_log(run: Path) -> Path | None:
    if run.is_file():
        return run
    logs = (path for path in (run / "train.log", *sorted(run.glob("*.log"))) if path.is_file())
    return next(logs, None)


def whole_lines(text: str) -> list[str]:
    """The lines without a last one that is half written: its numbers may be cut."""
    lines = text.splitlines(keepends=True)
    return lines if text.endswith(("\n", "}")) else lines[:-1]


def _drop_later(entries: list[dict], update: float, same: bool) -> None:
    """Remove the entries after an update, to which a training has gone back; with ``same`` also those at the update."""
    while entries and (entries[-1]["num_updates"] > update or same and entries[-1]["num_updates"] == update):
        entries.pop()
