"""The rows of a recipe's table: ours, the paper's, the command.

    python -m fairseq_plugins.tools.results_table add results.jsonl depth-1 ours=28.1 paper=28.3
    python -m fairseq_plugins.tools.results_table show results.jsonl

A cell is one run's row. ``add`` replaces a cell of the same name; ``show`` prints a Markdown table with the columns in
the order they first appeared, and where there are cells NAME-seed1, NAME-seed2 and so on a second one with a row for
all of them: of each number the mean, the smallest and the largest. Values are numbers where they look like numbers.
"""

import argparse
import json
import math
import os
import re
import statistics
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("add", "show"))
    parser.add_argument("table", type=Path, help="file of JSON lines")
    parser.add_argument("cell", nargs="?", help="name of the row")
    parser.add_argument("values", nargs="*", metavar="COLUMN=VALUE")
    args = parser.parse_args()
    if args.action == "add" and not args.cell:
        parser.error("add needs the name of a cell.")
    try:
        if args.action == "add":
            add(args.table, args.cell, args.values)
        if args.action == "show":
            rows = read_rows(args.table)
            print(markdown(rows))
            if len(of_seeds := means(rows)) < len(rows):
                print("", markdown(of_seeds), sep="\n")
    except ValueError as error:
        parser.error(str(error))


def add(path: Path, cell: str, values: list[str]) -> None:
    """Add a row, or replace the one of that name; values are COLUMN=VALUE."""
    write_rows(path, read_rows(path) | {cell: dict(map(_value, values))})


def read_rows(path: Path) -> dict[str, dict]:
    """Columns by cell; none if there is no file yet.

    Raises:
        ValueError: a line is damaged; it is not passed over, since its run would be repeated
    """
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8; name a results.jsonl that a recipe has written.") from None
    rows = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
            rows[row.pop("cell")] = row
        except (ValueError, KeyError, AttributeError, TypeError):
            raise ValueError(
                f"{path} has no whole row in line {number}; delete that line, and the next call of its recipe makes "
                "the row again."
            ) from None
    return rows


def write_rows(path: Path, rows: dict[str, dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".partial")
    temporary.write_text(
        "".join(json.dumps({"cell": cell} | row) + "\n" for cell, row in rows.items()), encoding="utf-8"
    )
    os.replace(temporary, path)


def means(rows: dict[str, dict]) -> dict[str, dict]:
    """One row for the cells of all seeds: what is a number, and what they agree in."""
    models = {}
    for cell, row in rows.items():
        models.setdefault(re.sub(r"-seed\d+$", "", cell), []).append(row)
    return {
        model: {"seeds": float(len(runs))}
        | {column: value for column in runs[0] if (value := _mean([run.get(column) for run in runs])) is not None}
        for model, runs in models.items()
    }


def _mean(values: list) -> float | str | None:
    if len(set(values)) == 1:
        return values[0]
    if all(isinstance(value, (int, float)) and math.isfinite(value) for value in values):
        return f"{statistics.mean(values):.5g} ({min(values):.6g} to {max(values):.6g})"
    return None


def markdown(rows: dict[str, dict]) -> str:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    table = [["cell", *columns], ["---"] * (len(columns) + 1)]
    table += [
        [cell, *(shown(row.get(column, "")).replace("|", "\\|") for column in columns)] for cell, row in rows.items()
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in table)


def _value(argument: str) -> tuple[str, float | str]:
    column, equals, value = argument.partition("=")
    if not equals or not column:
        raise ValueError(f"'{argument}' is not COLUMN=VALUE.")
    try:
        return column, float(value)
    except ValueError:
        return column, value


def shown(value) -> str:
    """A value as tables show it. A training that diverged has no number."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.6g}" if math.isfinite(value) else "not a number"


if __name__ == "__main__":
    main()
