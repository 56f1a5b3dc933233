"""Add the rows of cells of evidence.sh to its table, benchmarks/evidence/rows.jsonl.

    python benchmarks/evidence_rows.py runs/evidence/copy-feedback

A cell's name is that of its folder. Rows of other cells remain. In commands DIR stands for folders of raw text, and for
others that are no part of the repository.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fairseq_plugins.tools import results_table  # noqa: E402

TABLE = Path(__file__).resolve().parent / "evidence" / "rows.jsonl"


def main():
    if not sys.argv[1:]:
        sys.exit("evidence_rows.py: error: name the folders of cells, such as runs/evidence/copy-feedback.")
    rows = results_table.read_rows(TABLE)
    for folder in map(Path, sys.argv[1:]):
        try:
            added = rows_of(folder)
        except (ValueError, KeyError) as error:
            sys.exit(f"evidence_rows.py: error: a results.jsonl in {folder} is damaged, {error}; run its cell again.")
        if not added:
            sys.exit(f"evidence_rows.py: error: {folder} has no rows: run its cell with evidence.sh first.")
        rows |= added
    results_table.write_rows(TABLE, rows)


def rows_of(cell: Path) -> dict[str, dict]:
    rows = {}
    for file in sorted(cell.rglob("results.jsonl")):
        for name, row in results_table.read_rows(file).items():
            rows[f"{cell.name}: {name}"] = row | {"command": without_folders(row["command"])}
    return rows


def without_folders(command: str) -> str:
    return re.sub(r"--(raw|data|out) (?:(?<=raw )\S*|/\S*)/", r"--\1 DIR/", command)


if __name__ == "__main__":
    main()
