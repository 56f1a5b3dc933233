"""Add the rows of cells of evidence.sh to its table, benchmarks/evidence/rows.jsonl.

    python benchmarks/evidence_rows.py runs/evidence/copy-feedback

A cell's name is that of its folder. Rows of other cells remain. Folders of raw text are written as DIR.
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
        files = sorted(folder.rglob("results.jsonl"))
        if not files:
            sys.exit(f"evidence_rows.py: error: {folder} has no results.jsonl: run its cell with evidence.sh first.")
        for file in files:
            for name, row in results_table.read_rows(file).items():
                row["command"] = re.sub(r"--raw \S+/", "--raw DIR/", row["command"])
                rows[f"{folder.name}: {name}"] = row
    results_table.write_rows(TABLE, rows)


if __name__ == "__main__":
    main()
