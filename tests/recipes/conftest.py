"""Recipes whose commands are replaced."""

from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


@pytest.fixture
def altered(recipe, tmp_path):
    """Run a copy of a recipe, into tmp_path/out: altered(name, *options, programs={"fairseq-train": "exit 1"}).

    Each program is a line of shell that does the work of the command of this name. ``change`` may edit the copy.
    """

    def altered(name, *options, programs, change=lambda text: text, env={}):
        folder, copy = tmp_path / "programs", tmp_path / "recipes" / name
        for each in (folder, copy.parent):
            each.mkdir(parents=True, exist_ok=True)
        for program, lines in programs.items():
            (folder / program).write_text(f"#!/bin/sh\n{lines}\n")
            (folder / program).chmod(0o755)
        original = RECIPES / name
        (copy.parent / "paper.json").write_text((original.parent / "paper.json").read_text())
        text = change(original.read_text()).replace('"$(dirname "${BASH_SOURCE[0]}")', f'"{original.parent}')
        setup = f"setup_venv() {{ export PATH={folder}:$VENV/bin:$PATH; }}"
        copy.write_text(text.replace('begin "$@"', f'{setup}\nbegin "$@"'))
        return recipe(copy.name, *options, "--out", tmp_path / "out", folder=copy.parent, env=env)

    return altered
