"""Add a row to a recipe's table: our figures beside the paper's.

    python recipes/lib/row.py runs/x/results.jsonl feedback BLEU=@json:runs/x/feedback/test.json:bleu paper=29.5

A name or a value that begins with @ is a figure (figures.py). With --if FIGURE there is no row where there is no such
figure yet. The table is that of fairseq_plugins/tools/results_table.py, which prints it.
"""

import argparse
import sys
from pathlib import Path

import figures

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fairseq_plugins/tools"))
import results_table  # noqa: E402  by path: as a part of the package it would import torch, which takes seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="file of JSON lines")
    parser.add_argument("row", help="its name")
    parser.add_argument("values", nargs="*", metavar="COLUMN=VALUE")
    parser.add_argument("--if", dest="condition", metavar="FIGURE", help="only where there is this figure")
    args = parser.parse_args()
    if args.condition and figures.value(f"@?{args.condition}") == "-":
        return
    values = [f"{column}={figures.value(text)}" for column, _, text in (each.partition("=") for each in args.values)]
    try:
        results_table.add(args.table, figures.value(args.row), values)
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
