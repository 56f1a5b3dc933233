"""Fixtures of all tests: the real commands, a generated corpus, a small trained model.

Modules that the benchmarks use, too, such as forks.py, are in benchmarks/shared/.
"""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import forks
import pytest
from reversals import write_reversals
from warm import Warm

# before torch is imported: on two cores more threads only get into each other's way
os.environ["OMP_NUM_THREADS"] = "1"

ROOT = Path(__file__).resolve().parent.parent

ARCH = "feedback_transformer_tiny"


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="smoke every recipe, not just one")
    parser.addoption("--cold", action="store_true", help="start every command anew, and not as a fork (see forks.py)")


OPENED = contextlib.ExitStack()
COLD = False


def pytest_configure(config):
    global COLD
    COLD = config.getoption("--cold") or not hasattr(os, "pidfd_open")


QUICK = {"test_paper_settings.py", "test_setup.py", "test_evil_checkpoints.py", "test_shards.py"}


def pytest_collection_modifyitems(items):
    """Tests of whole commands are slow, but for a few: together they take four fifths of the time."""
    for item in items:
        whole_commands = item.path.parent.name in ("cli", "recipes") and item.path.name not in QUICK
        if whole_commands or item.path.name == "test_average_and_tune.py":
            item.add_marker(pytest.mark.slow)


def pytest_unconfigure(config):
    OPENED.close()


@lru_cache
def commands() -> Path:
    """The folder of this environment's commands, which start at once, as of the first that is needed (forks.py)."""
    real = Path(sys.executable).parent
    if COLD:
        return real
    folder = Path(OPENED.enter_context(tempfile.TemporaryDirectory()))
    return OPENED.enter_context(forks.environment(folder / "venv", real.parent)) / "bin"


def run_command(*command, check=True, env=None, cwd=ROOT, input=None) -> subprocess.CompletedProcess:
    """Run a command of this virtual environment (fairseq-train, python, torchrun...), output captured as text.

    ``env`` is added to the environment. Unless ``check`` is False, a failing command fails the test with its output.
    """
    command = [str(word) for word in command]
    folder = Path(sys.executable).parent if "PYTHONPATH" in (env or {}) else commands()  # which imports before a fork
    if (folder / command[0]).exists():
        command[0] = str(folder / command[0])
    env = {**os.environ, "PYTHONWARNINGS": "ignore", "CUDA_VISIBLE_DEVICES": "", **(env or {})}
    done = subprocess.run(command, env=env, cwd=cwd, input=input, capture_output=True, text=True, timeout=900)
    if check and done.returncode:
        pytest.fail(f"{' '.join(command)}\nexit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done


@pytest.fixture(scope="session")
def run():
    return run_command


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of this environment's commands, for tests that write a command line of their own."""
    return commands()


@pytest.fixture(scope="session")
def warm():
    """Run a command and judge the outcome: warm("fairseq-train", ..., log=file) -> Done."""
    return Warm(commands())


@pytest.fixture(scope="session")
def shared_folder(request, tmp_path_factory) -> Path:
    """A folder that the processes of this run of the tests have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(request.config, "workerinput") else own  # pytest-xdist's processes have this


@pytest.fixture(scope="session")
def user_dir() -> Path:
    """The plugin package, for ``--user-dir``."""
    return ROOT / "fairseq_plugins"


@dataclass(frozen=True)
class Corpus:
    """``raw/{train,valid,test}.{src,tgt}``, one space between letters, and ``bin``, made by fairseq-preprocess."""

    raw: Path
    bin: Path

    def lines(self, split: str, side: str) -> list[str]:
        return (self.raw / f"{split}.{side}").read_text().splitlines()


@pytest.fixture(scope="session")
def reverse_corpus(tmp_path_factory) -> Corpus:
    """Strings of two to seven out of eight letters; the target is the source reversed. 2000, 100 and 60 lines, and
    test1 of 5."""
    folder = tmp_path_factory.mktemp("reverse")
    raw = write_reversals(folder / "raw", {"train": 2000, "valid": 100, "test": 60, "test1": 5})
    return binarise(raw, folder / "bin", "--testpref", f"{raw / 'test'},{raw / 'test1'}")


def binarise(raw: Path, folder: Path, *options) -> Corpus:
    prefixes = {split: raw / split for split in ("train", "valid", "test") if (raw / f"{split}.src").exists()}
    words = [word for split, prefix in prefixes.items() for word in (f"--{split}pref", prefix)]
    run_command(
        "fairseq-preprocess", "--source-lang", "src", "--target-lang", "tgt", *words, "--destdir", folder,
        "--joined-dictionary", *options,
    )  # fmt: skip
    return Corpus(raw, folder)


@pytest.fixture(scope="session")
def letters(binarise_lines, tmp_path_factory) -> Path:
    """Lines of fifteen letters, drawn at random: 40, 8 and 8 of them, binarised for a language model."""
    folder, draw = tmp_path_factory.mktemp("letters"), random.Random(1)
    for split, lines in {"train": 40, "valid": 8, "test": 8}.items():
        (folder / split).write_text("".join(" ".join(draw.choices("abcdef", k=15)) + "\n" for _ in range(lines)))
    return binarise_lines(folder)


@pytest.fixture(scope="session")
def binarise_lines():
    """binarise_lines(folder with files train, valid and test) -> folder of the binarised data."""

    def binarise_lines(folder: Path) -> Path:
        prefixes = [word for split in ("train", "valid", "test") for word in (f"--{split}pref", folder / split)]
        run_command("fairseq-preprocess", "--only-source", *prefixes, "--destdir", folder / "bin")
        return folder / "bin"

    return binarise_lines


@pytest.fixture(scope="session")
def tiny_flags() -> list[str]:
    """Model, criterion and optimisation flags of a training that takes seconds; add data, --save-dir and
    --max-update."""
    return (
        f"--arch {ARCH} --dropout 0.0 --criterion label_smoothed_cross_entropy --optimizer adam --lr 0.005"
        " --max-tokens 600 --cpu --num-workers 0 --no-progress-bar --log-format simple"
    ).split()


@dataclass(frozen=True)
class Trained:
    """A folder that fairseq-train wrote, its newest checkpoint, and the command that made it."""

    folder: Path
    checkpoint: Path
    command: list


@pytest.fixture(scope="session")
def trained(reverse_corpus, tiny_flags, user_dir, tmp_path_factory) -> Trained:
    """A tiny model after twelve updates: it loads and translates, badly."""
    folder = tmp_path_factory.mktemp("trained")
    command = ["fairseq-train", reverse_corpus.bin, "--user-dir", user_dir, *tiny_flags, "--max-update", 12]
    run_command(*command, "--save-dir", folder)
    return Trained(folder, folder / "checkpoint_last.pt", command)


@pytest.fixture(scope="session")
def venv() -> Path:
    """The virtual environment that the tests run in, if it is one that the recipes know as set up."""
    if not (commands().parent / ".fairseq_plugins_setup").exists():
        pytest.skip("the recipes would set up an environment of their own: run tests/run.sh")
    return commands().parent


@pytest.fixture
def recipe(venv):
    """Run a recipe: recipe(name, *options, folder=recipes/feedback, env={}, cwd=ROOT) -> CompletedProcess."""

    def recipe(name, *options, folder=ROOT / "recipes/feedback", env={}, cwd=ROOT):
        return run_command("bash", folder / name, *options, check=False, env={"VENV": str(venv), **env}, cwd=cwd)

    return recipe


@pytest.fixture
def read_only():
    """A function after which nobody can write in a folder, until the test ends."""
    with contextlib.ExitStack() as mounts:

        def protect(folder: Path) -> None:
            if subprocess.run(["mount", "--bind", folder, folder], capture_output=True).returncode:
                pytest.skip("only root can mount a folder")
            mounts.callback(subprocess.run, ["umount", folder], check=True)
            subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)

        yield protect
