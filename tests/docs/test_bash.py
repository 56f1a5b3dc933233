"""The commands in the pages are right: they go through their own parsers, or their options are known."""

import re

import pytest
from pages import ROOT, every_block

from fairseq_plugins.tools.parse_commands import Refused, parse

OTHERS = {"pip", "pre-commit", "mkdocs"}  # not the suite's: only that they are called
BLOCKS = [block for block in every_block("bash") if block.mark != "run"]  # test_python.py runs those


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_commands_are_right(block, shell):
    called = shell.calls(block.code)
    assert called
    for words in called:
        check(words)


def check(words: list[str]) -> None:
    """
    Raises:
        Refused, AssertionError: the command would not work
    """
    program, *rest = words
    if program.endswith(".sh"):
        check_script(program, rest)
    elif program == "sbatch":
        scripts = [word for word in rest if word.endswith(".sh")]
        assert len(scripts) == 2 and (ROOT / scripts[1]).exists()
    elif program not in OTHERS:
        parse(words)


def check_script(script: str, words: list[str]) -> None:
    """A script is there, and a recipe has the options that it is called with; those after -- are fairseq's."""
    assert (ROOT / script).exists()
    if script.startswith("recipes/") and script != "recipes/quickstart.sh":
        own = words[: words.index("--")] if "--" in words else words
        assert {word for word in own if word.startswith("--")} <= options_of_recipes()


def options_of_recipes() -> set[str]:
    text = (ROOT / "recipes/lib/options.py").read_text()
    names = re.search(r"^SWITCHES = .*\nTAKE_A_VALUE = .*$", text, flags=re.MULTILINE)
    return {"--help", *re.findall(r"--[a-z-]+", names[0])}


def test_the_shell_splits_words_and_wrong_ones_are_found(shell):
    (words,) = shell.calls("X=(--arch feedback_lm_tiny)\nfairseq-train data 'a b' \"${X[@]}\" --learning-rate 1")
    assert words == ["fairseq-train", "data", "a b", "--arch", "feedback_lm_tiny", "--learning-rate", "1"]
    with pytest.raises(Refused):
        check(words)
    with pytest.raises(AssertionError):
        check(["recipes/multi30k.sh", "--smok"])


def test_programs_in_a_pipe_and_under_torchrun_are_called(shell):
    called = shell.calls("echo 1 | fairseq-interactive data\ntorchrun --nproc_per_node 2 $(which fairseq-train) data")
    assert called == [
        ["fairseq-interactive", "data"],
        ["torchrun", "--nproc_per_node", "2", "fairseq-train", "data"],
    ]
