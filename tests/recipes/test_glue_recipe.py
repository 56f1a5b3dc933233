"""recipes/skip_cross_head/table4_glue.sh: with --all its smoke run."""

import re
from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[2] / "recipes/skip_cross_head"
NAME = "table4_glue.sh"


def test_smoke_run_compares_both_models(recipe, tmp_path, request):
    if not request.config.getoption("--all"):
        pytest.skip("runs with --all")
    done = recipe(NAME, "--smoke", "--out", tmp_path, folder=RECIPES)
    assert done.returncode == 0, done.stderr[-3000:]
    table = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in table[2:]] == ["| MRPC accuracy", "| MRPC f1"]
    figure = r"\d+\.\d\d ± \d+\.\d\d"
    published = r"82\.242 \| 1\.281 \| 82\.609 \| 1\.4 \| 9\.3"
    assert re.search(rf"\| {figure} \| {figure} \| \S+.* \| {published} \|", table[2])

    again = recipe(NAME, "--smoke", "--out", tmp_path, folder=RECIPES)
    assert again.returncode == 0 and "fairseq-train" not in again.stderr and "score_sentences" not in again.stderr
    assert table == [line for line in again.stdout.splitlines() if line.startswith("| ")]
