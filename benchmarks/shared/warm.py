"""The outcome of a command: honoured, refused with a sentence, or a fault such as a traceback."""

import os
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TRACEBACK = "Traceback (most recent call last)"


class Done(NamedTuple):
    """The outcome of a command. A ``returncode`` below 0 is a signal's number, as subprocess has it."""

    returncode: int
    output: str

    @property
    def told(self) -> list[str]:
        """The sentences for the user."""
        return [line for line in self.output.splitlines() if line.startswith("fairseq_plugins: error: ")]

    @property
    def verdict(self) -> str:
        """honoured, refused (with one sentence), or the name of a fault."""
        if self.returncode < 0:
            return f"signal {signal.Signals(-self.returncode).name}"
        if TRACEBACK in self.output:
            return "traceback"
        if self.returncode == 0:
            return "honoured"
        return "refused" if len(self.told) == 1 else "no sentence"


class Warm:
    """Runs commands such as ``fairseq-train``, each with its output in one log.

    Args:
        commands: folder of the commands
    """

    def __init__(self, commands: Path):
        self.commands = commands

    def __call__(self, *command, log: Path, seconds: int = 120) -> Done:
        """Run a command; one that takes longer than ``seconds`` is killed."""
        variables = {**os.environ, "PYTHONWARNINGS": "ignore", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        words = [str(self.commands / command[0]), *map(str, command[1:])]
        with open(log, "w") as output:
            started = subprocess.Popen(
                words, env=variables, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                started.wait(seconds)
            except subprocess.TimeoutExpired:
                started.kill()
        return Done(started.wait(), log.read_text(errors="replace"))
