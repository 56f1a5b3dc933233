"""recipes/skip_cross_head/table4_glue.sh: its commands, and with --all its smoke run."""

import re
from pathlib import Path

import pytest
from dry_runs import commands_of

RECIPES = Path(__file__).resolve().parents[2] / "recipes/skip_cross_head"
NAME = "table4_glue.sh"
TASKS = 6
MODELS = 2


def test_dry_run_parses_every_command_and_runs_none(recipe, tmp_path):
    env = {"SEEDS": "1 2", "BPE_DIR": str(tmp_path / "with space")}
    done = recipe(NAME, "--dry-run", "--gpus", 8, "--out", tmp_path / "out", folder=RECIPES, env=env)
    rows = 8
    commands = 1 + TASKS * MODELS * (2 + 1) + rows + 1  # prepare; two trainings and scores; the table
    assert len(commands_of(done)) == commands
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("env, options, sentence", [
    ({"TASKS": "MRPC RTE"}, ["--dry-run"], "TASKS: RTE is none of"),
    ({"SEEDS": "1"}, ["--dry-run"], "SEEDS: a standard deviation needs two seeds or more."),
    ({}, ["--dry-run", "--gpus", 5], "32 sentences cannot be shared evenly by 5 processes: choose --gpus 1, 2"),
    ({"ROBERTA": "/nowhere/model.pt"}, [], "ROBERTA: /nowhere/model.pt does not exist: unpack https://"),
])  # fmt: skip
def test_what_cannot_be_is_named(env, options, sentence, recipe, tmp_path):
    done = recipe(NAME, "--out", tmp_path, *options, folder=RECIPES, env=env)
    assert done.returncode == 2 and f"table4_glue: error: {sentence}" in done.stderr


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
