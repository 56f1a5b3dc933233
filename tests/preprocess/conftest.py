import subprocess
import sys
from pathlib import Path

import pytest

PREPROCESS = Path(__file__).parents[2] / "preprocess"
sys.path.insert(0, str(PREPROCESS))  # the scripts import each other as plain modules


@pytest.fixture(scope="session")
def script():
    """Run a script of preprocess/ as a user would: ``script("multi30k", "--raw", raw, "--out", out)``."""

    def run(name, *arguments):
        command = [sys.executable, str(PREPROCESS / f"{name}.py"), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    return run


@pytest.fixture(scope="session")
def generated(script, tmp_path_factory):
    """Generated raw text in the layout of a corpus."""

    def make(layout, train=200, valid=20, test=21):
        raw = tmp_path_factory.mktemp(layout)
        done = script("synthetic", "--out", raw, "--format", layout, "--train", train, "--valid", valid, "--test", test)
        assert done.returncode == 0, done.stderr
        return raw

    return make
