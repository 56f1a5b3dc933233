"""Add the rows of cells of evidence.sh to a table.

    python benchmarks/evidence_rows.py runs/evidence/copy-feedback --rows benchmarks/evidence/rows.jsonl

    python benchmarks/evidence_rows.py --names --rows benchmarks/evidence/rows.jsonl

A cell's name is that of its folder. Rows of other cells remain. In commands, DIR replaces folders of raw text and
other folders outside the repository.
"""

import argparse
import re
import sys
from pathlib import Path

import paths  # noqa: F401  finds the suite

from fairseq_plugins.tools import results_table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "cells", nargs="*", type=Path, metavar="CELL", help="folder, such as runs/evidence/copy-feedback"
    )
    parser.add_argument("--names", action="store_true", help="print which cells have rows in the table, add none")
    parser.add_argument("--rows", type=Path, required=True, metavar="FILE", help="the table, a new one or an old one")
    args = parser.parse_args()
    if bool(args.cells) == args.names:
        parser.error("give folders of cells, or --names without any.")
    try:
        if args.names:
            print(*sorted({name.partition(": ")[0] for name in results_table.read_rows(args.rows)}), sep="\n")
        else:
            results_table.add_rows(args.rows, {name: row for cell in args.cells for name, row in rows_of(cell).items()})
    except ValueError as error:
        sys.exit(f"evidence_rows.py: error: {error}")


def rows_of(cell: Path) -> results_table.Rows:
    """The rows of a cell's recipe.

    Raises:
        ValueError: there are none, or one is damaged
    """
    rows = {}
    for file in sorted(cell.rglob("results.jsonl")):
        for name, row in results_table.read_rows(file).items():
            if not isinstance(row.get("command"), str):
                raise ValueError(f"{file} has no command in its row {name}; delete the file and run the cell again.")
            if f"{cell.name}: {name}" in rows:
                raise ValueError(f"{cell} has two tables with a row {name}; delete the folder and run the cell again.")
            rows[f"{cell.name}: {name}"] = row | {"command": without_folders(row["command"])}
    if not rows:
        raise ValueError(f"{cell} has no rows: run its cell with evidence.sh first.")
    return rows


def without_folders(command: str) -> str:
    return re.sub(r"--(raw|data|out) (?:(?<=raw )\S*|/\S*)/", r"--\1 DIR/", command)


if __name__ == "__main__":
    main()
