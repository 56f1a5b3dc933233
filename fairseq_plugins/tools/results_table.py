"""The rows of a recipe's table: ours, the paper's, the command.

    python -m fairseq_plugins.tools.results_table add results.jsonl depth-1 ours=28.1 paper=28.3
    python -m fairseq_plugins.tools.results_table show results.jsonl

A cell is one run's row. ``add`` replaces a cell of the same name; ``show`` prints a Markdown table with the columns in
the order they first appeared. Where there are cells NAME-seed1, NAME-seed2 and so on, it prints a second table with a
row for all of them: of each number the mean, the smallest and the largest. It says where their commands differ in more
than the seed. Values are numbers where they look like numbers.
"""

import fcntl
import json
import math
import os
import re
import shlex
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # recipes run this file by its path

from fairseq_plugins.errors import UserError  # noqa: E402
from fairseq_plugins.files.reading import parse_json, regular  # noqa: E402
from fairseq_plugins.files.whole import NotWritten, followed, write_text  # noqa: E402
from fairseq_plugins.tools.lib import markdown_text  # noqa: E402
from fairseq_plugins.tools.lib.command import Command  # noqa: E402

# the first letters of words of a command that change no run
CHOICES = ("SEEDS=", "MODELS=", "TASKS=", "MIXERS=", "DEPTHS=", "JOBS=", "PRUNED=", "--seed=", "--out=", "--gpus=")
NAME_A_TABLE = "name a results.jsonl that a recipe has written"
Value = str | float
Rows = dict[str, dict[str, Value]]  # columns by cell


def main():
    parser = Command(__doc__)
    parser.add_argument("action", choices=("add", "show"))
    parser.add_argument("table", type=Path, help="file of JSON lines")
    parser.add_argument("cell", nargs="?", help="name of the row")
    parser.add_argument("values", nargs="*", metavar="COLUMN=VALUE")
    args = parser.parse()
    if args.action == "show":
        show(args.table)
    elif args.cell:
        add(args.table, args.cell, args.values)
    else:
        parser.error("add needs the name of a cell.")


def show(path: Path) -> None:
    if not path.exists():
        raise UserError(f"{path} does not exist; {NAME_A_TABLE}.")
    rows = read_rows(path)
    print(markdown(rows))
    if of_seeds := means(rows):
        print("", markdown(of_seeds), sep="\n")
    for model in differing(rows):
        print(f"\n{warning(model)}")


def add(path: Path, cell: str, values: list[str]) -> None:
    """Add a row, or replace the one of that name; values are COLUMN=VALUE."""
    add_rows(path, {cell: dict(map(_value, values))})


def add_rows(path: Path, new: Rows) -> None:
    """Add rows, or replace those of the same names. Several processes may do so at the same time."""
    path = followed(path)
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file that a table could replace; name another.")
    if new.items() <= read_rows(path).items():  # also on a read-only disk
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone_with(path):
            write_rows(path, read_rows(path) | new)
    except OSError as error:
        raise NotWritten(f"{path} could not be written ({error.strerror}).") from error


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Wait until no other process is at work on this table. On NFS other nodes respect a lock if its file is open for
    writing."""
    while True:
        with open(path, "a") as file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):  # else it was replaced
                yield
                return


def read_rows(path: Path) -> Rows:
    """The rows; none if there is no file yet.

    Raises:
        UserError: a line is damaged, or a name is given twice. A damaged line is an error, since without it a recipe
            would repeat its run
    """
    try:
        text = regular(path).read_text(encoding="utf-8") if path.exists() else ""
    except UnicodeDecodeError:
        raise UserError(f"{path} is no text in UTF-8; {NAME_A_TABLE}.") from None
    rows: Rows = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = parse_json(line)
            cell = row.pop("cell")
        except (ValueError, KeyError, AttributeError, TypeError):
            raise UserError(
                f"{path} has no whole row in line {number}; delete that line, and the next call of its recipe makes "
                "the row again."
            ) from None
        if wrong := [column for column, value in row.items() if not _sound(value)] or [cell] * (type(cell) is not str):
            raise UserError(
                f"{path} has {wrong[0]!r} in the row {cell!r}, which is neither a text nor a number of a size that can "
                f"be shown; {NAME_A_TABLE}."
            )
        if cell in rows:
            raise UserError(f"{path} has the row {cell} in line {lines[cell]} and in line {number}; delete one.")
        rows[cell], lines[cell] = row, number
    return rows


def _sound(value) -> bool:
    """Is it a text, or a number that a float can hold?"""
    return abs(value) < 1e300 if type(value) is int else isinstance(value, (str, float))


def write_rows(path: Path, rows: Rows) -> None:
    write_text(path, "".join(json.dumps({"cell": cell} | row) + "\n" for cell, row in rows.items()))


def by_model(rows: Rows) -> dict[str, list[dict[str, Value]]]:
    """The runs NAME-seed1, NAME-seed2 and so on by NAME."""
    models: dict[str, list[dict[str, Value]]] = {}
    for cell, row in rows.items():
        if found := re.fullmatch(r"(.+)-seed\d+", cell):
            models.setdefault(found[1], []).append(row)
    return models


def means(rows: Rows) -> Rows:
    """One row for the cells of all seeds: their number, the means of numbers, and the values that are the same for all.
    Without a model of several seeds there is none."""
    models = by_model(rows)
    if all(len(runs) == 1 for runs in models.values()):
        return {}
    found: Rows = {}
    for model, runs in models.items():
        columns = {column: _mean([run.get(column) for run in runs]) for column in runs[0] if column != "seeds"}
        shared = {column: value for column, value in columns.items() if value is not None}
        found[model] = {"seeds": float(len(runs)), **shared}
    return found


def differing(rows: Rows) -> list[str]:
    """The models whose seeds have different commands, by words that may change their numbers."""
    return [
        model
        for model, runs in by_model(rows).items()
        if len({_settings(str(run["command"])) for run in runs if "command" in run}) > 1
    ]


def warning(model: str) -> str:
    return f"The seeds of {model} have different commands; compare these before you use the mean."


def _settings(command: str) -> str:
    """A command without seeds, other choices among a recipe's runs, and the folder of results."""
    joined = re.sub(r"--(seed|out|gpus) ", r"--\1=", command)
    try:
        words = shlex.split(joined)
    except ValueError:  # it is no whole command of a shell
        words = joined.split()
    return " ".join(word for word in words if not word.startswith(CHOICES))


def _mean(values: list) -> Value | None:
    if len(set(values)) == 1:
        return values[0]
    if all(isinstance(value, (int, float)) and math.isfinite(value) for value in values):
        return f"{_number(statistics.mean(values))} ({_number(min(values))} to {_number(max(values))})"
    return None


def markdown(rows: Rows) -> str:
    columns = dict.fromkeys(column for row in rows.values() for column in row)
    lines = [[cell, *(shown(row.get(column, "")) for column in columns)] for cell, row in rows.items()]
    return markdown_text.table(["cell", *columns], lines)


def _value(argument: str) -> tuple[str, Value]:
    column, equals, value = argument.partition("=")
    if not equals or not column:
        raise UserError(f"'{argument}' is not COLUMN=VALUE.")
    if column == "cell":
        raise UserError(f"'{argument}': cell is the row's name, which comes first; name the column otherwise.")
    try:
        return column, value if "_" in value else float(value)  # 2_4 is no number but in Python
    except ValueError:
        return column, value


def shown(value: Value) -> str:
    """A value as tables show it. A training that diverged has no number."""
    if isinstance(value, str):
        return value
    return _number(value) if math.isfinite(value) else "not a number"


def _number(value: float) -> str:
    """Whole numbers in full, others with six digits."""
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.6g}"


if __name__ == "__main__":
    main()
