"""Collect the rows of evidence.sh in one table: benchmarks/evidence/rows.jsonl.

    python benchmarks/evidence_rows.py            from runs/evidence
    python benchmarks/evidence_rows.py FOLDER     from there

Rows of other cells remain. Folders of raw text are written as DIR.
"""

import re
import sys
from pathlib import Path

from fairseq_plugins.tools import results_table

TABLE = Path(__file__).resolve().parent / "evidence" / "rows.jsonl"


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/evidence")
    rows = results_table.read_rows(TABLE)
    for file in sorted(folder.rglob("results.jsonl")):
        for cell, row in results_table.read_rows(file).items():
            row["command"] = re.sub(r"--raw \S+/", "--raw DIR/", row["command"])
            rows[f"{file.parent.relative_to(folder)}: {cell}"] = row
    results_table.write_rows(TABLE, rows)
    print(f"{len(rows)} rows in {TABLE}")


if __name__ == "__main__":
    main()
