import subprocess
import sys

from fairseq_plugins.tools import results_table


def table(*arguments):
    # by path, as recipes may call it: it needs neither torch nor fairseq
    command = [sys.executable, results_table.__file__, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_cells_are_added_replaced_and_shown(tmp_path):
    rows = tmp_path / "runs" / "table.jsonl"
    added = table("add", rows, "depth-1", "ours=27.9", "paper=28.3", "command=fairseq-train --lenpen=0.6 | tee")
    assert added.returncode == 0
    table("add", rows, "depth-2", "ours=28.5", "words/s=1200")
    table("add", rows, "depth-1", "ours=28.1", "paper=28.3", "command=fairseq-train --lenpen=0.6 | tee")
    assert table("show", rows).stdout.splitlines() == [
        "| cell | ours | paper | command | words/s |",
        "| --- | --- | --- | --- | --- |",
        "| depth-1 | 28.1 | 28.3 | fairseq-train --lenpen=0.6 \\| tee |  |",
        "| depth-2 | 28.5 |  |  | 1200 |",
    ]
    assert [path.name for path in rows.parent.iterdir()] == ["table.jsonl"]


def test_the_runs_of_several_seeds_have_a_row_together(tmp_path):
    rows = tmp_path / "table.jsonl"
    for cell, bpc, file in (("a-seed1", 2.1, "x"), ("a-seed2", 2.25, "y"), ("b-seed1", 3, "z")):
        table("add", rows, cell, f"bpc={bpc}", "rate=0.001", f"file={file}")
    shown, together = table("show", rows).stdout.split("\n\n")
    assert len(shown.splitlines()) == 5
    assert together.splitlines() == [
        "| cell | seeds | bpc | rate | file |",
        "| --- | --- | --- | --- | --- |",
        "| a | 2 | 2.175 (2.1 to 2.25) | 0.001 |  |",
        "| b | 1 | 3 | 0.001 | z |",
    ]


def test_what_is_wrong_is_said(tmp_path):
    rows = tmp_path / "table.jsonl"
    assert "needs the name of a cell" in table("add", rows).stderr
    assert "'ours' is not COLUMN=VALUE" in table("add", rows, "depth-1", "ours").stderr
    rows.write_text('{"cell": "depth-1"}\n{"cell": "dep')
    broken = table("add", rows, "depth-1")
    assert broken.returncode == 2 and "table.jsonl has no whole row in line 2" in broken.stderr
