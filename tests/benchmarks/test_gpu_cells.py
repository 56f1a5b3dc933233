"""benchmarks/gpu.py: what is done is skipped, what fails or hangs harms no other cell; and all of it, small."""

import json
import os
import signal
import time
from dataclasses import dataclass, field

import gpu
import pytest
from gpu_cells import CELLS, runner
from gpu_cells.cell import MINUTE, Cell, Setting

from fairseq_plugins.errors import UserError


@dataclass
class Counted(Cell):
    """Measures how often it was measured before; does something first."""

    before: object = field(default=lambda: None)

    def measure(self, setting):
        with open(setting.folder / "calls", "a") as file:
            file.write(".")
        self.before()
        return {"calls": os.path.getsize(setting.folder / "calls")}


class Hangs(Cell):
    limit = 1

    def measure(self, setting):
        (setting.folder / "pid").write_text(str(os.getpid()))
        time.sleep(600)


@pytest.fixture
def run(tmp_path):
    """Run cells: run(name=cell...) -> the rows."""

    def run(seconds=float("inf"), **cells):
        rows = tmp_path / "rows.jsonl"
        runner.run_cells(cells, Setting("cpu", True, tmp_path), rows, {"device": "none"}, seconds)
        return {row["cell"]: row for row in map(json.loads, rows.read_text().splitlines())} if rows.exists() else {}

    return run


def test_a_cell_writes_its_row_and_is_skipped_from_then_on(run, capsys):
    row = run(one=Counted())["one"]
    assert (row["state"], row["calls"], row["device"]) == ("done", 1, "none") and row["seconds"] >= 0
    assert "one: begun, at most 540 s" in (told := capsys.readouterr().out)
    assert "one: state done, calls 1" in told and len(told.splitlines()) == 2
    assert run(one=Counted())["one"] == row
    assert "one: there already" in capsys.readouterr().out


def raise_error():
    raise ValueError("the sum is wrong\nby much")


def leave():
    raise SystemExit(3)


@pytest.mark.parametrize(
    "before, told",
    [
        (raise_error, "failed: ValueError: the sum is wrong"),
        (leave, "failed: SystemExit: 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "failed: its process ended with status -9; see bad.txt"),
    ],
)
def test_a_cell_that_fails_says_how_and_the_next_call_tries_it_again(run, before, told):
    rows = run(bad=Counted(before), good=Counted())
    assert rows["bad"]["state"] == told
    assert rows["good"]["state"] == "done"
    assert run(bad=Counted())["bad"] == {**rows["good"], "cell": "bad", "calls": 3, "seconds": pytest.approx(0, abs=60)}


def test_a_cell_that_hangs_is_stopped_at_its_limit(run, tmp_path):
    rows = run(hangs=Hangs(), good=Counted())
    assert rows["hangs"]["state"] == "failed: stopped after its limit of 1 s"
    assert rows["good"]["state"] == "done"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_what_a_cell_prints_is_in_its_log(run, tmp_path):
    run(loud=Counted(lambda: os.system("echo said")))
    assert (tmp_path / "loud.txt").read_text() == "said\n"


def test_no_cell_begins_that_may_end_too_late(run, capsys):
    assert run(seconds=100, long=Counted()) == {}
    assert "left for another call" in capsys.readouterr().out


def test_no_cell_takes_more_than_nine_minutes():
    assert CELLS and all(0 < cell.limit <= 9 * MINUTE for cell in CELLS.values())


def test_cells_are_chosen_by_their_names():
    assert list(gpu.chosen(["speed-translation-*"])) == ["speed-translation-6+2", "speed-translation-6+6"]
    with pytest.raises(UserError, match="--cells fast is the name of no cell; see --list"):
        gpu.chosen(["fast"])
