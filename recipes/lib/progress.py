"""Run a long command, log what it prints, and show how far it is and the time left."""

import re
import subprocess
import threading
import time
from pathlib import Path
from typing import TextIO

import say  # noqa: F401  finds the package

from fairseq_plugins.files.whole import NotWritten
from fairseq_plugins.tools.lib import log_lines
from fairseq_plugins.tools.lib.signs_of_life import Display

RECORD = re.compile(r"^(DEBUG|INFO):|\| (DEBUG|INFO) \|")  # a line of Python's logging
BAR = re.compile(r"(\d{1,9}) ?/ ?(\d{1,9})\b")  # of fairseq's and tqdm's bars: 12 / 40, 12/40
SHOWN = ("loss", "ppl", "bpc", "bpb", "accuracy")  # figures of a training, if it has them


def run(command: list[str], work, log: Path, mode: str, out: TextIO | None = None) -> tuple[int, str]:
    """Run a command, and show the state of its work. Returns its status, and its stderr if it was shown as it is.

    Args:
        work: its ``read`` takes a line of stdout, and returns the line to show, if there is one. If stdout goes to the
            file ``out``, it takes those of stderr.
        log: gets all lines, but for those that go to ``out``
        mode: of the log, wb or ab

    Raises:
        NotWritten: the log could not be written. The command has ended by itself.
    """
    errors: list[str] = []
    lost: list[OSError] = []

    def follow(lines, read) -> None:
        for line in lines:  # a bar's carriage return ends a line, too
            try:
                file.write(line.encode(errors="replace"))
            except OSError as error:
                lost.append(error)
            if shown := read(line):
                display.line(shown.rstrip("\n"))

    def passed(line: str) -> str:
        errors.append(line)
        return line

    pipe = {"stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    with (
        open(log, mode, buffering=0) as file,
        Display(work) as display,
        subprocess.Popen(command, stdout=out or subprocess.PIPE, **pipe) as process,
    ):
        reader = threading.Thread(target=follow, args=(process.stderr, work.read if out else passed))
        reader.start()
        follow(process.stdout or [], work.read)
        reader.join()
    if lost:
        raise NotWritten(f"{log} could not be written ({lost[0].strerror}): make room, and call the recipe again.")
    return process.returncode, "".join(errors)


class Work:
    """How far a command is.

    Args:
        name: of the command, for messages
    """

    def __init__(self, name: str):
        self.name, self.start = name, time.monotonic()
        self.shares: list[tuple[float, float]] = []  # of the work that were done at the first time, and at the last one

    def done(self, share: float) -> None:
        self.shares = [*self.shares[:1], (share, time.monotonic())]

    def left(self, now: float) -> str:
        """The time left, if two shares are known."""
        if not self.shares or self.shares[-1][0] <= self.shares[0][0]:
            return ""
        (before, start), (share, then) = self.shares
        seconds = (1 - share) * (then - start) / (share - before) - (now - then)
        return f", about {clock(seconds)} left" if seconds > 1 else ", ending"


class Training(Work):
    """A training, from the lines of its log. Its command has --max-update or --max-epoch."""

    def __init__(self, name: str, command: list[str]):
        super().__init__(name)
        self.updates, self.epochs = (number_after(flag, command) for flag in ("--max-update", "--max-epoch"))
        self.figures = ""

    def read(self, line: str) -> str | None:
        """Take in a line. Returns the text of a line of its own for the figures of a validation."""
        entry = log_lines.read_line(line)
        if not entry or entry.kind == "train" or "num_updates" not in entry.values:
            return None
        update, epochs = int(entry.values["num_updates"]), entry.values["epochs"]
        where = f"{self.name}: update {update}" + (f" of {self.updates:g}" if self.updates else "")
        where += f", epoch {epochs:.3g}" + (f" of {self.epochs:g}" if self.epochs else "")
        figures = "".join(f", {name} {entry.values[name]:.4g}" for name in SHOWN if name in entry.values)
        if entry.kind == "valid":
            return f"{where}, validation{figures}"
        shares = [done / whole for done, whole in ((update, self.updates), (epochs, self.epochs)) if whole]
        if shares:
            self.done(max(shares))
        self.figures = where + figures
        return None

    def state(self, now: float) -> str:
        if not self.figures:
            return f"{self.name}: the training is starting ({clock(now - self.start)} so far)"
        return self.figures + self.left(now)


class Bars(Work):
    """A command that shows bars, as fairseq-generate and tqdm do."""

    bar = ""

    def read(self, line: str) -> str | None:
        """Take in a line, or a part that ends in a carriage return. Returns it if it is worth a line of its own: it is
        neither a bar nor a record of a log."""
        found = BAR.search(line)
        if found and (RECORD.search(line) or "it/s" in line or "%|" in line) and 0 < int(found[2]) >= int(found[1]):
            self.bar = f", {found[1]} of {found[2]}"
            self.done(int(found[1]) / int(found[2]))
            return None
        return None if RECORD.search(line) or not line.strip() else line

    def state(self, now: float) -> str:
        return f"{self.name}{self.bar} ({clock(now - self.start)} so far{self.left(now)})"


def number_after(flag: str, command: list[str]) -> float:
    """The value of a flag, written as two words or with =; 0 if it is not there."""
    values = [value for name, value in zip(command, command[1:]) if name == flag]
    values += [word.partition("=")[2] for word in command if word.startswith(f"{flag}=")]
    return float(values[-1]) if values else 0


def clock(seconds: float) -> str:
    """5 s, 12 min or 3 h 20 min"""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
