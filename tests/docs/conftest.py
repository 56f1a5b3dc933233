"""The folders in which the code of the pages is tried."""

import shutil
from pathlib import Path

import pytest
from megatron_files import write_megatron
from pages import ROOT
from shell import Shell

from fairseq_plugins.text.levels import Characters
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain

CHECKPOINTS = ROOT / "tests/models/checkpoints"
SENTENCES = {"train": 60, "valid": 10, "test": 10}


@pytest.fixture(scope="session")
def shell(tmp_path_factory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


@pytest.fixture(scope="session")
def workspace(run, tmp_path_factory) -> Path:
    """A folder in which examples find their files: small models and data in place of those that take hours."""
    folder = tmp_path_factory.mktemp("workspace")
    for name in ("docs", "fairseq_plugins", "preprocess"):
        (folder / name).symlink_to(ROOT / name)
    make_language_model(run, folder)
    make_translation(run, folder / "runs/quickstart")
    for split in SENTENCES:
        write_megatron(folder / f"megatron/{split}_text_document", [[[15496, 995, 50256]], [[318, 50256]]], 8, "uint16")
    return folder


def make_language_model(run, folder: Path) -> None:
    """A kept checkpoint of some letters in place of char-PTB's, and these letters binarised."""
    (folder / "runs/ptb").mkdir(parents=True)
    shutil.copy(CHECKPOINTS / "feedback_lm_tiny.pt", folder / "runs/ptb/checkpoint_best.pt")
    shutil.copy(CHECKPOINTS / "dict.txt", folder / "runs/ptb")
    PreparedText(Plain(), Plain(), Characters(space="_")).save(folder / "runs/ptb")
    text = folder / "letters"
    text.write_text("a b c d e f g h\nh g f e d c b a\na a b b c c\n" * 20)
    letters = folder / "data/letters/bin"
    run("fairseq-preprocess", "--only-source", "--trainpref", text, "--validpref", text, "--destdir", letters)
    (folder / "data/char_ptb").mkdir()
    shutil.copytree(letters, folder / "data/char_ptb/bin")
    shutil.copy(CHECKPOINTS / "dict.txt", folder / "data/char_ptb/bin")


def make_translation(run, folder: Path) -> None:
    """The files of recipes/quickstart.sh, after two updates on a few sentences."""
    sizes = [word for split, number in SENTENCES.items() for word in (f"--{split}", number)]
    run("python", ROOT / "preprocess/synthetic.py", "--out", folder / "raw", *sizes)
    languages = ("--source", "en", "--target", "lomi", "--bpe", 60)
    run("python", ROOT / "preprocess/parallel.py", "--raw", folder / "raw", *languages, "--out", folder / "data")
    run(
        "fairseq-train", folder / "data/bin", "--source-lang", "en", "--target-lang", "lomi",
        "--user-dir", ROOT / "fairseq_plugins", "--arch", "feedback_transformer_tiny", "--optimizer", "adam",
        "--max-tokens", 2000, "--max-update", 2, "--save-dir", folder / "model", "--cpu",
    )  # fmt: skip
