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
def prepare(script):
    """The output of a script that succeeds."""

    def prepare(name, *arguments):
        done = script(name, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return prepare


@pytest.fixture(scope="session")
def refused(script):
    """The error of a script that ends in a sentence."""

    def refused(name, *arguments):
        done = script(name, *arguments)
        *_, error = done.stderr.splitlines()
        assert done.returncode and error.startswith(f"{name}.py: error: ") and "Traceback" not in done.stderr
        return error

    return refused


@pytest.fixture(scope="session")
def generated(prepare, tmp_path_factory):
    """Generated raw text in the layout of a corpus."""

    def make(layout, train=200, valid=20, test=21):
        raw = tmp_path_factory.mktemp(layout)
        prepare("synthetic", "--out", raw, "--format", layout, "--train", train, "--valid", valid, "--test", test)
        return raw

    return make
