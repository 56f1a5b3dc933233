import sys
from pathlib import Path

import pytest

PREPROCESS = Path(__file__).parents[2] / "preprocess"
sys.path.insert(0, str(PREPROCESS))  # the scripts import each other as plain modules


@pytest.fixture(scope="session")
def script(run):
    """Run a script of preprocess/ as a user would: ``script("multi30k", "--raw", raw, "--out", out)``."""

    def script(name, *arguments):
        return run(sys.executable, PREPROCESS / f"{name}.py", *arguments, check=False)

    return script


@pytest.fixture(scope="session")
def generated(script, tmp_path_factory):
    """Generated raw text in the layout of a corpus."""

    def make(layout, train=200, valid=20, test=21):
        raw = tmp_path_factory.mktemp(layout)
        done = script("synthetic", "--out", raw, "--format", layout, "--train", train, "--valid", valid, "--test", test)
        assert done.returncode == 0, done.stderr
        return raw

    return make
