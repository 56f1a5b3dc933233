"""Every command of a recipe on one page: the dry run, which is committed beside the recipe as NAME.commands.

    python tests/recipes/commands_files.py                                  write all of them again
    python tests/recipes/commands_files.py recipes/feedback/table2_wmt14.sh

A page is a script for the root of the repository with the virtual environment active. It has one GPU, so the batches in
it are those of all processes, and one seed where a recipe has several (two where it needs them).
"""

import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPES = [
    path for path in sorted((ROOT / "recipes").rglob("*.sh"))
    if path.read_text().startswith("#!") and 'begin "$@"' in path.read_text()
]  # fmt: skip
WORD = re.compile(r"""(?:[^\s'"$]|'[^']*'|"[^"]*"|\$\([^)]*\)|\$)+""")
WIDTH = 120
CHECKED: set[frozenset] = set()  # kinds of commands whose types this process has checked
MACHINE = re.compile(r"set -euo pipefail|cd /|export PATH=")  # the lines of a dry run that are of no recipe


def page_of(recipe: Path) -> Path:
    return recipe.with_suffix(".commands")


def seeds(recipe: Path) -> dict[str, str]:
    if "[SEEDS]" not in recipe.read_text():
        return {}
    return {"SEEDS": "1 2" if recipe.stem == "table4_glue" else "1"}


def dry_run(recipe: Path, out: Path, *options: str | Path, **env: str) -> subprocess.CompletedProcess:
    """The dry run of a page. Nothing exists in the folder, so what a user has run before is not in it."""
    command = ["bash", recipe, "--gpus", "1", *(options or ["--dry-run"]), "--out", out]
    return subprocess.run(command, env=os.environ | seeds(recipe) | env, capture_output=True, text=True)


def commands_of(done: subprocess.CompletedProcess, written: Path | None = None) -> list[str]:
    """The lines of a dry run that refused no command: they are a script, and every command is in it, one a line.

    Args:
        written: the FILE of --commands, whose commands are parsed in this process, which is faster
    """
    assert done.returncode == 0, done.stderr
    if written:
        number = parsed(written.read_text())
    else:
        says = re.search(r"^(\d+) commands parsed, 0 refused$", done.stderr, re.MULTILINE)
        assert says, done.stderr
        number = int(says[1])
    lines = done.stdout.splitlines()
    assert lines[0] == "set -euo pipefail" and lines[1].startswith("cd ")
    assert not subprocess.run(["bash", "-n"], input=done.stdout, text=True).returncode
    commands = [line for line in lines if re.search(r"(^|\|\| )(fairseq-|torchrun |python )", line)]
    assert len(commands) == number > 0
    return commands


def parsed(commands: str) -> int:
    """How many there are, after each has passed through its own parser."""
    from fairseq_plugins.tools.parse_commands import Refused, parse

    lines = commands.splitlines()
    with contextlib.chdir(ROOT):  # as their script does
        for line in lines:
            where, _, command = line.partition("\t")
            try:
                parse(shlex.split(command), CHECKED)
            except Refused as error:
                raise AssertionError(f"{where}: {error}") from error
    return len(lines)


def page(recipe: Path, out: Path, printed: str) -> str:
    """The text of the page, from the output of the dry run."""
    place = recipe.relative_to(ROOT)
    text = re.sub(rf" --out {re.escape(str(out))}(?=['\\s])", "", printed)
    text = text.replace(str(out), f"runs/{place.relative_to('recipes').with_suffix('')}")
    variables = "".join(f"{name}={value!r} " for name, value in seeds(recipe).items())
    lines = [f"# {variables}{place} --gpus 1 --dry-run, written by tests/recipes/commands_files.py"]
    lines += [folded(line) for line in text.splitlines() if not MACHINE.match(line)]
    return "\n".join(lines) + "\n"


def folded(line: str) -> str:
    """A command on several lines, with each flag beside its values."""
    if len(line) <= WIDTH or line.startswith("#"):
        return line
    groups = [[]]
    for word in WORD.findall(line):
        if re.match(r"--|2>|>|\||\$|[\w ,'.]+=@|'[^']*=", word):
            groups.append([])
        groups[-1].append(word)
    lines = [""]
    for group in (" ".join(group) for group in groups if group):
        if lines[-1].strip() and len(lines[-1]) + len(group) + 3 > WIDTH:
            lines.append("    ")
        lines[-1] += (" " if lines[-1].strip() else "") + group
    return " \\\n".join(lines)


def main():
    for recipe in [Path(word).resolve() for word in sys.argv[1:]] or RECIPES:
        with tempfile.TemporaryDirectory() as folder:
            done = dry_run(recipe, Path(folder) / "out")
            if done.returncode:
                sys.exit(f"{recipe}: {done.stderr}")
            page_of(recipe).write_text(page(recipe, Path(folder) / "out", done.stdout))


if __name__ == "__main__":
    main()
