"""benchmarks/timing.py: what is measured is measured beside no training."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
REPORT = "import timing; timing.report([['a table']], None)"


@pytest.mark.parametrize("other", [fcntl.LOCK_SH, fcntl.LOCK_EX], ids=["a cell trains", "speed is measured"])
def test_a_measurement_waits_until_it_is_alone(tmp_path, other):
    environment = os.environ | {"PYTHONPATH": str(BENCHMARKS), "TMPDIR": str(tmp_path)}
    with (tmp_path / f"fairseq_plugins-{os.getuid()}.training").open("w") as held:
        fcntl.flock(held, other)
        command = [sys.executable, "-c", REPORT]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        waiting = subprocess.Popen(command, env=environment, **streams)
        assert waiting.stderr.readline() == "waiting: a cell of evidence.sh trains here, or speed is measured\n"
    assert waiting.communicate() == ("a table\n", "") and waiting.returncode == 0
