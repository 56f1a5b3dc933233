"""recipes/multi30k.sh: its commands, and with --all its smoke run with both models."""

from pathlib import Path

import pytest
from dry_runs import commands_of

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
BOTH = {"MODELS": "transformer feedback", "SEEDS": "1 2", "DEPTHS": "1"}


def test_sentencepiece_is_a_variable(recipe, tmp_path):
    done = recipe("multi30k.sh", "--dry-run", "--out", tmp_path / "out", folder=RECIPES, env={"BPE": "sentencepiece"})
    assert commands_of(done)
    assert "multi30k.py" in done.stdout and "--bpe sentencepiece" in done.stdout
    assert "--bpe prepared" in done.stdout and "--remove-bpe" not in done.stdout


def test_smoke_run_compares_both_models(recipe, tmp_path, request):
    if not request.config.getoption("--all"):
        pytest.skip("runs with --all")
    done = recipe("multi30k.sh", "--smoke", "--out", tmp_path / "out", folder=RECIPES, env=BOTH)
    assert done.returncode == 0, done.stderr
    assert "| feedback-1-seed2 |" in done.stdout and "Paired bootstrap" in done.stdout
