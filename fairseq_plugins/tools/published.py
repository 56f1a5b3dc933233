"""Print the published numbers of a paper, from the paper.json beside its recipes.

    python fairseq_plugins/tools/published.py recipes/feedback/paper.json

Prints a line for each number: table, row and column with bars between, a tab, and the number as it is written there.
"""

import argparse
import json
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", type=Path, help="recipes/PAPER/paper.json")
    for name, number in published(parser.parse_args().paper.read_text(encoding="utf-8")).items():
        print("|".join(name), number, sep="\t")


def published(text: str) -> dict[tuple[str, str, str], str]:
    """The file's text -> {(table, row, column): number}, 1.060 with its last zero."""
    tables = json.loads(text, parse_float=str, parse_int=str)["published"]
    return {
        (table, row, column): number
        for table, rows in tables.items()
        for row, columns in rows.items()
        for column, number in columns.items()
    }


if __name__ == "__main__":
    main()
