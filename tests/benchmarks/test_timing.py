"""benchmarks/timing.py: nothing is measured beside a training."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
# says whether a cell of evidence.sh could train while something is measured
MEASURE = """
import cells, fcntl, timing
def parts():
    with open(f"{cells.SPEED}.training") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
            yield "a cell trains"
        except BlockingIOError:
            yield "alone"
timing.report(parts(), None)
"""


@pytest.fixture
def measure(tmp_path):
    def start(folder=tmp_path):
        environment = os.environ | {"PYTHONPATH": str(BENCHMARKS), "TMPDIR": str(folder)}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, "-c", MEASURE], env=environment, **streams)

    return start


def test_a_measurement_waits_for_the_cells_that_train_and_lets_none_begin(measure, tmp_path):
    locks = tmp_path / f"fairseq_plugins-{os.getuid()}"
    with open(f"{locks}.training", "w") as cell:
        fcntl.flock(cell, fcntl.LOCK_SH)
        waiting = measure()
        assert waiting.stderr.readline() == "waiting: a cell of evidence.sh trains here, or speed is measured\n"
        with open(f"{locks}.next") as next_cell, pytest.raises(BlockingIOError):
            fcntl.flock(next_cell, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert waiting.communicate() == ("alone\n\n", "") and waiting.returncode == 0


def test_a_folder_that_is_not_there_is_named(measure, tmp_path):
    failed = measure(tmp_path / "nowhere")
    errors = failed.communicate()[1]
    assert failed.returncode == 1 and "error: TMPDIR:" in errors and "name a folder" in errors
