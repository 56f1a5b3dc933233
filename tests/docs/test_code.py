"""The code in the pages works: Python is run, files are written, commands are run or go through their parsers."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import PAGES, ROOT, blocks, every_block, name

from fairseq_plugins.tools.lib.register import register
from fairseq_plugins.tools.parse_commands import Refused, parse

# Programs that a block of bash may call beside fairseq's, python and the repository's own scripts.
OTHERS = {"pip", "pre-commit", "mkdocs"}
AWAITED = ["fairseq_plugins.tools.sample"]
ENVIRONMENT = Path(sys.executable).parent
SHIM = """#!/bin/bash
cat >/dev/null
printf '%s\\0' "$0" "$@" $'\\x1e' >>"$SHIMS/calls"
"""


# Python


@pytest.mark.parametrize("page", [page for page in PAGES if any(b.language == "python" for b in blocks(page))], ids=name)
def test_python_runs_and_prints_what_it_says(page, run, workspace, shims):
    """All blocks of a page are one script, whose lines have the numbers that they have on the page."""
    written = [block for block in every_block("python") if block.page == page]
    for block in written:
        if block.file:
            (workspace / block.file).parent.mkdir(exist_ok=True)
            (workspace / block.file).write_text(block.code)
    for block in every_block("bash"):
        if block.page == page and block.mark == "run":
            for words in calls(block.code, shims):
                run(*words, cwd=workspace)
    lines = [""] * page.read_text().count("\n")
    for block in written:
        if not block.file:
            code = block.code.splitlines()
            lines[block.line - 1 : block.line - 1 + len(code)] = code
    script = workspace / f"{page.stem}_page.py"
    script.write_text("\n".join(lines) + "\n")
    said = run("python", script.name, cwd=workspace).stdout.splitlines()
    printed = [line for line in lines if line.startswith("print(")]
    assert len(said) == len(printed)
    for line, output in zip(printed, said, strict=True):
        expected = re.search(r"\)  # (?!such as )(.+)$", line)
        assert not expected or output == expected[1], line


# Bash


@pytest.fixture(scope="session")
def shims(tmp_path_factory) -> Path:
    """A folder like the repository's, in which every script, and in bin every program, only notes how it is called."""
    folder = tmp_path_factory.mktemp("shims")
    shim = folder / "bin/shim"
    shim.parent.mkdir()
    shim.write_text(SHIM)
    shim.chmod(0o755)
    programs = [path.name for path in ENVIRONMENT.iterdir() if path.name.startswith("fairseq-")]
    for program in [*programs, "python", "torchrun", "sbatch", *OTHERS]:
        (folder / "bin" / program).symlink_to(shim)
    scripts = [*ROOT.glob("recipes/**/*.sh"), *ROOT.glob("tests/*.sh"), *ROOT.glob("benchmarks/*.sh")]
    for script in scripts:
        place = folder / script.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(shim)
    return folder


def calls(code: str, shims: Path) -> list[list[str]]:
    """The commands that a block of bash calls, words as the shell has split them."""
    noted = shims / "calls"
    noted.write_text("")
    variables = {"PATH": f"{shims / 'bin'}:/usr/bin:/bin", "SHIMS": str(shims)}
    subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=shims, env=variables, stdin=subprocess.DEVNULL, check=True)
    words = [word.removeprefix(f"{shims}/bin/") for word in noted.read_text().split("\0")[:-1]]
    ends = [index for index, word in enumerate(words) if word == "\x1e"]
    return [words[begin:end] for begin, end in zip([0, *(end + 1 for end in ends)], ends)]


PARSED = [block for block in every_block("bash") if block.mark != "run"]


@pytest.mark.parametrize("block", PARSED, ids=str)
def test_commands_are_right(block, shims, monkeypatch):
    register()
    monkeypatch.chdir(ROOT)
    called = calls(block.code, shims)
    assert called
    for words in called:
        check(words)


def check(words: list[str]) -> None:
    """Raises Refused or fails for a command that would not work."""
    program = words[0]
    if program.endswith(".sh"):
        check_script(words)
    elif program == "sbatch":
        scripts = [word for word in words if word.endswith(".sh")]
        assert len(scripts) == 2 and (ROOT / scripts[1]).exists()
    elif program not in OTHERS and words[1:3] != ["-m", "pytest"] and words[2:3] != AWAITED:
        parse(words)


def check_script(words: list[str]) -> None:
    """A recipe has the options that it is called with."""
    script = ROOT / words[0]
    assert script.exists()
    if words[0].startswith("recipes/") and words[0] != "recipes/quickstart.sh":
        known = set(re.findall(r"--[a-z-]+", (ROOT / "recipes/lib.sh").read_text()))
        assert {word for word in words[1:] if word.startswith("--")} <= known | {"--help"}


def test_a_wrong_command_is_found(shims, monkeypatch):
    monkeypatch.chdir(ROOT)
    (words,) = calls("X=(--arch feedback_lm_tiny)\nfairseq-train data 'a b' \"${X[@]}\" --learning-rate 1", shims)
    assert words == ["fairseq-train", "data", "a b", "--arch", "feedback_lm_tiny", "--learning-rate", "1"]
    with pytest.raises(Refused):
        check(words)
    with pytest.raises(AssertionError):
        check(["recipes/multi30k.sh", "--smok"])


# The site


def test_the_site_builds(tmp_path):
    mkdocs = shutil.which("mkdocs") or shutil.which("mkdocs", path=ENVIRONMENT)
    if mkdocs is None:
        pytest.skip("mkdocs is not installed: pip install mkdocs-material")
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--quiet", "--site-dir", tmp_path], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Multi30k" in (tmp_path / "benchmarks/multi30k/index.html").read_text()
