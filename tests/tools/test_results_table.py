import os
import subprocess
import sys

import pytest

from fairseq_plugins.errors import UserError
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
    """A mean is shown with as many digits as the smallest and the largest number."""
    rows = tmp_path / "table.jsonl"
    for cell, updates, bpc, file in (
        ("a-seed1", 123454, 1.23456, "x"), ("a-seed2", 123456, 1.23458, "y"), ("a", 1, 9, "y"), ("b-seed1", 4, 3, "z"),
    ):  # fmt: skip
        given = [f"updates={updates}", f"bpc={bpc}", "rate=0.001", f"file={file}", "heads=2_4", "seeds=1"]
        results_table.add(rows, cell, given)
    shown, together = table("show", rows).stdout.split("\n\n")
    assert len(shown.splitlines()) == 6
    assert together.splitlines() == [
        "| cell | seeds | updates | bpc | rate | heads | file |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| a | 2 | 123455 (123454 to 123456) | 1.23457 (1.23456 to 1.23458) | 0.001 | 2_4 |  |",
        "| b | 1 | 4 | 3 | 0.001 | 2_4 | z |",
    ]


@pytest.mark.parametrize("one, other, said", [
    ("MODELS=a SEEDS=1 x.sh --out a", "MODELS='a b' SEEDS='2 3' x.sh --out b", False),
    ("PASS=490 SEEDS=1 x.sh", "PASS=2450 SEEDS=2 x.sh", True),
    ("MODELS=a x.sh --out '/of two words/a'", "MODELS=b x.sh --out '/of two words/b'", False),
    ("MODELS=a PASS=490 /o'brien/x.sh", "MODELS=a PASS=2450 /o'brien/x.sh", True),
    ('sh -c "a', 'sh -c "a', False),
])  # fmt: skip
def test_seeds_that_were_not_run_alike_are_said(one, other, said, tmp_path, capsys):
    rows = {"m-seed1": {"bpc": 1.6, "command": one}, "m-seed2": {"bpc": 2.1, "command": other}}
    results_table.write_rows(tmp_path / "table.jsonl", rows)
    results_table.show(tmp_path / "table.jsonl")
    assert ("The seeds of m have different commands" in capsys.readouterr().out) == said


def test_no_row_is_lost_when_many_are_added_at_once(tmp_path):
    rows = tmp_path / "table.jsonl"
    command = [sys.executable, results_table.__file__, "add", str(rows)]
    for process in [subprocess.Popen([*command, f"c{number}", f"x={number}"]) for number in range(8)]:
        assert process.wait() == 0
    assert sorted(results_table.read_rows(rows)) == [f"c{number}" for number in range(8)]


def test_no_table_takes_the_place_of_a_device(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is no file that a table could replace"):
        results_table.add_rows(tmp_path / "pipe", {})


def test_nobody_has_to_read_to_the_end(tmp_path):
    rows = tmp_path / "table.jsonl"
    results_table.write_rows(rows, {f"c{number}": {"x": "y" * 50} for number in range(5000)})
    show = subprocess.Popen([sys.executable, results_table.__file__, "show", str(rows)], stdout=-1, stderr=-1)
    show.stdout.readline()
    show.stdout.close()
    assert show.stderr.read() == b"" and show.wait() == 1


def test_wrong_arguments_are_refused(tmp_path):
    rows = tmp_path / "table.jsonl"
    assert "needs the name of a cell" in table("add", rows).stderr
    assert "'ours' is not COLUMN=VALUE" in table("add", rows, "depth-1", "ours").stderr
    assert "cell is the row's name" in table("add", rows, "depth-1", "cell=5").stderr
    assert "table.jsonl does not exist" in table("show", rows).stderr


DAMAGED = {
    b'{"cell": "depth-1"}\n{"cell": "dep': "no whole row in line 2",
    b"{}": "no whole row in line 1",
    b"\xff\xfe": "no text in UTF-8",
    b'{"cell": "a", "bpc": [1]}': "neither a text nor a number",
    b'{"cell": "a", "bpc": 1%s}' % (b"0" * 400): "neither a text nor a number",
    b'{"cell": 3, "bpc": 1}': "neither a text nor a number",
    b'{"cell": [3], "bpc": 1}': "neither a text nor a number",
    b'{"cell": "a", "bpc": 1}\n' * 2: "has the row a in line 1 and in line 2; delete one",
}


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_table_is_refused(content, tmp_path):
    (tmp_path / "table.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=f"table.jsonl .*{DAMAGED[content]}"):
        results_table.read_rows(tmp_path / "table.jsonl")
