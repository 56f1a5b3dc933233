"""Signs of life of a long command: at least every ten seconds how far it is, and the time left.

On a terminal the state of the work is one line that replaces itself. Elsewhere, as in a file, it is a line of its own
every ten seconds.
"""

import re
import shutil
import sys
import threading
import time

import say

from fairseq_plugins.tools.lib import log_lines

SILENCE = 10  # seconds
RECORD = re.compile(r"^(DEBUG|INFO):|\| (DEBUG|INFO) \|")  # a line of Python's logging
BAR = re.compile(r"(\d{1,9}) ?/ ?(\d{1,9})\b")  # of fairseq's and tqdm's bars: 12 / 40, 12/40
SHOWN = ("loss", "ppl", "bpc", "accuracy")  # figures of a training, if it has them
LOCK = threading.Lock()


class Display:
    """Shows a command's lines, and between them the state of its work, inside the `with` block.

    Args:
        work: an object whose ``state(now)`` says how far it is; ``now`` is of ``time.monotonic``
    """

    def __init__(self, work, stream=sys.stderr):
        self.work, self.stream, self.terminal = work, stream, stream.isatty()
        self.shown = time.monotonic()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.write("")

    def line(self, text: str) -> None:
        """Show a line."""
        self.write(f"{text}\n")

    def write(self, text: str) -> None:
        with LOCK:
            self.stream.write(("\r\x1b[2K" if self.terminal else "") + text)
            self.stream.flush()
            self.shown = time.monotonic()

    def _watch(self) -> None:
        while not self.ended.wait(1):
            self.tick(time.monotonic())

    def tick(self, now: float) -> None:
        """Show the state, if it is time to."""
        text = f"{say.recipe()}: {self.work.state(now)}"
        if self.terminal:
            self.write(text[: shutil.get_terminal_size().columns - 1])
        elif now - self.shown >= SILENCE - 1:  # the next tick is a second away
            self.line(text)
            self.shown = now


class Estimate:
    """The time left, from the shares of the work that were done at two times."""

    def __init__(self):
        self.first = self.last = None

    def add(self, share: float, now: float) -> None:
        self.first = self.first or (share, now)
        self.last = (share, now)

    def left(self, now: float) -> str:
        if not self.last or self.last[0] <= self.first[0]:
            return ""
        (before, start), (share, then) = self.first, self.last
        seconds = (1 - share) * (then - start) / (share - before) - (now - then)
        return f", about {clock(seconds)} left" if seconds > 1 else ", ending"


class Training:
    """How far a training is, from the lines of its log.

    Args:
        name: the name of the training
        command: the words of its command, with --max-update or --max-epoch
    """

    def __init__(self, name: str, command: list[str]):
        self.name = name
        self.updates, self.epochs = (number_after(flag, command) for flag in ("--max-update", "--max-epoch"))
        self.start, self.estimate, self.figures = time.monotonic(), Estimate(), ""

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
            self.estimate.add(max(shares), time.monotonic())
        self.figures = where + figures
        return None

    def state(self, now: float) -> str:
        if not self.figures:
            return f"{self.name}: the training is starting ({clock(now - self.start)} so far)"
        return self.figures + self.estimate.left(now)


class Bars:
    """How far a command is that shows bars, as fairseq-generate and tqdm do.

    Args:
        name: the name of the command
    """

    def __init__(self, name: str):
        self.name, self.start, self.estimate, self.done = name, time.monotonic(), Estimate(), ""

    def read(self, line: str) -> str | None:
        """Take in a line, or a part that ends in a carriage return. Returns it if it is worth a line of its own: it is
        neither a bar nor a record of a log."""
        bar = BAR.search(line)
        if bar and (RECORD.search(line) or "it/s" in line or "%|" in line) and 0 < int(bar[2]) >= int(bar[1]):
            self.done = f", {bar[1]} of {bar[2]}"
            self.estimate.add(int(bar[1]) / int(bar[2]), time.monotonic())
            return None
        return None if RECORD.search(line) or not line.strip() else line

    def state(self, now: float) -> str:
        return f"{self.name}{self.done} ({clock(now - self.start)} so far{self.estimate.left(now)})"


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
