"""The commands that a block of bash calls, by the shell itself: every program and script is replaced by one that notes
its name and words, and does nothing."""

import re
import subprocess
import sys
from pathlib import Path

from pages import ROOT

# Programs that a block may call, beside fairseq's own commands and the repository's scripts
PROGRAMS = ("python", "torchrun", "sbatch", "pip", "pre-commit", "mkdocs")
NOTE = """#!/bin/bash
cat >/dev/null
printf '%s\\0' "$0" "$@" $'\\x1e' >>"$NOTES"
"""


class Shell:
    """A folder that looks like the repository to a shell.

    Args:
        folder: an empty one, to be filled
    """

    def __init__(self, folder: Path):
        self.folder, self.programs, self.notes = folder, folder / "bin", folder / "notes"
        self.programs.mkdir()
        self.note = self.programs / "note"
        self.note.write_text(NOTE)
        self.note.chmod(0o755)
        fairseqs = [path.name for path in Path(sys.executable).parent.glob("fairseq-*")]
        for name in (*fairseqs, *PROGRAMS):
            self.put(self.programs / name)
        for folder in ("recipes", "tests", "benchmarks"):
            for script in (ROOT / folder).rglob("*.sh"):
                self.put(self.folder / script.relative_to(ROOT))

    def put(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.note)

    def calls(self, code: str) -> list[list[str]]:
        """The commands that are called, in their order, each as its words."""
        self.notes.write_text("")
        for name in re.findall(r"(?:(?<![<>])[<>]|head -\d+) ([\w./]+)", code):  # files that are read or written
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).touch()
        variables = {"PATH": f"{self.programs}:/usr/bin:/bin", "NOTES": str(self.notes)}
        command = ["bash", "-euo", "pipefail", "-c", code]
        subprocess.run(command, cwd=self.folder, env=variables, stdin=subprocess.DEVNULL, check=True)
        calls = [[]]
        for word in self.notes.read_text().split("\0")[:-1]:
            if word == "\x1e":
                calls.append([])
            else:
                calls[-1].append(word.removeprefix(f"{self.programs}/"))
        return calls[:-1]
