"""Train the cells that evidence.sh lists, and keep their rows.

The cells come on stdin: names and commands, each with a zero byte at its end. A cell's name is that of its folder. In
its rows, DIR replaces folders of raw text and other folders outside the repository.
"""

import fcntl
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import cells

from fairseq_plugins.errors import UserError
from fairseq_plugins.startup import error_hook
from fairseq_plugins.tools import results_table

NAME = "evidence.sh"


def main():
    out, rows, gpus, minutes, *words = sys.argv[1:]
    listed = sys.stdin.read().split("\0")
    commands = dict(zip(listed[::2], listed[1::2]))
    listing = words[:1] == ["--list"]
    names = chosen(words[listing:] or ["*"], list(commands))
    finished = named(rows).intersection(names)
    if listing:
        print(*(f"{name}: done" if name in finished else name for name in names), sep="\n")
        print(f"{len(finished)} of {len(names)} done")
        return
    if finished:
        again = "to train them again, name a new file with ROWS."
        say(f"{len(finished)} of {len(names)} have their numbers in {rows}; {again}")
    cells.end_with_cells()
    failed = []
    for name in cells.turns(names, Path(out), lambda name: name in named(rows), say):
        try:
            if train(Path(out) / name, commands[name], gpus, int(minutes)):
                results_table.add_rows(Path(rows), rows_of(Path(out) / name))
        except UserError as error:
            print(f"{NAME}: {error}", file=sys.stderr, flush=True)
            failed.append(name)
    if failed:
        print(f"{NAME}: error: {len(failed)} failed: {' '.join(failed)}", file=sys.stderr)
        sys.exit(1)


def chosen(patterns: list[str], names: list[str]) -> list[str]:
    """The names that a pattern fits, each once."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern.startswith("-"):
            raise UserError(f"there is no option {pattern} here; --list comes first, and --help tells of it.")
        matches = [name for name in names if fnmatchcase(name, pattern)]
        if not matches:
            raise UserError(f"{pattern} is the name of no cell; --list shows them.")
        found |= dict.fromkeys(matches)
    return list(found)


def named(rows: str) -> set[str]:
    """The cells that have rows in the table."""
    return {name.partition(": ")[0] for name in results_table.read_rows(Path(rows))}


def train(cell: Path, command: str, gpus: str, minutes: int) -> bool:
    """Whether the cell was trained to its end.

    Raises:
        UserError: it failed
    """
    noted = cell / "gpus"
    if noted.exists() and (begun := noted.read_text().strip()) != gpus:  # in another precision
        raise UserError(f"{cell.name} was begun with GPUS={begun}: give that again, or another OUT.")
    noted.write_text(f"{gpus}\n")
    waits = f"{cell.name} waits until a measurement of speed has ended."
    with cells.speed_lock(fcntl.LOCK_SH, lambda: say(waits)):
        say(f"{cell.name}, at most {minutes} minutes")
        try:
            cells.apart(partial(call, command), 60 * minutes, cell / "output.log", "a")
        except TimeoutError:
            say(f"{cell.name} needs longer than {minutes} minutes; the next call goes on with it.")
            return False
        except RuntimeError as error:
            raise UserError(f"{cell.name} failed; its output is in {cell}/output.log.") from error
    return True


def call(command: str) -> cells.Row:
    """Raises SystemExit if the command fails, which has said why."""
    if status := subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL).returncode:
        sys.exit(status)
    return {}


def rows_of(cell: Path) -> results_table.Rows:
    """The rows of a cell's recipe.

    Raises:
        UserError: there are none, or one is damaged
    """
    rows = {}
    for file in sorted(cell.rglob("results.jsonl")):
        for name, row in results_table.read_rows(file).items():
            if not isinstance(row.get("command"), str):
                raise UserError(f"{file} has no command in its row {name}; delete the file and run the cell again.")
            if f"{cell.name}: {name}" in rows:
                raise UserError(f"{cell} has two tables with a row {name}; delete the folder and run the cell again.")
            rows[f"{cell.name}: {name}"] = row | {"command": without_folders(row["command"])}
    if not rows:
        raise UserError(f"{cell} has no rows: delete the folder and run the cell again.")
    return rows


def without_folders(command: str) -> str:
    return re.sub(r"--(raw|data|out) (?:(?<=raw )\S*|/\S*)/", r"--\1 DIR/", command)


def say(text: str) -> None:
    print(f"{NAME}: {text}", flush=True)


if __name__ == "__main__":
    error_hook.run(main, NAME, status=2)
