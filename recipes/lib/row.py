"""Add a row to a recipe's table, with our figures beside the paper's.

    python recipes/lib/row.py runs/x/results.jsonl feedback "BLEU=@json runs/x/feedback/test.json bleu" paper=29.5

A row name or a value that begins with @ is a figure (figures.py). With --if @?FIGURE the row is added only if that
figure exists. fairseq_plugins/tools/results_table.py prints the table.
"""

import argparse
from pathlib import Path

import figures
import say

from fairseq_plugins.tools import results_table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="file of JSON lines")
    parser.add_argument("row", help="the name of the row")
    parser.add_argument("values", nargs="*", metavar="COLUMN=VALUE")
    parser.add_argument("--if", dest="condition", metavar="FIGURE", help="add the row only if this figure exists")
    args = parser.parse_args()
    if args.condition and figures.value(args.condition) == "-":
        return
    values = [f"{column}={figures.value(text)}" for column, _, text in (each.partition("=") for each in args.values)]
    results_table.add(args.table, figures.value(args.row), values)


if __name__ == "__main__":
    say.run(main)
