"""The recipes of the active-memory paper: dry runs of all, a smoke run of one (--all: of another too)."""

import re
from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[2] / "recipes/active_memory"
NAMES = sorted(path.name for path in RECIPES.glob("*.sh") if path.stat().st_mode & 0o111)  # not what recipes share
LINES = ["table1_wikitext103.sh", "dropout_comparison.sh"]
DEFAULT = LINES[0]


@pytest.mark.parametrize("name", NAMES)
def test_dry_run_parses_every_command_and_runs_none(name, recipe, tmp_path):
    done = recipe(name, "--dry-run", "--gpus", 8, "--out", tmp_path / "out", folder=RECIPES)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d+ commands parsed, 0 refused", done.stdout.strip())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("env, options, sentence", [
    ({"MIXERS": "lstm"}, [], "MIXERS: lstm is none of"),
    ({}, ["--gpus", 3], "64 lines cannot be shared evenly by 3 processes"),
])  # fmt: skip
def test_what_cannot_be_is_named(env, options, sentence, recipe, tmp_path):
    done = recipe(DEFAULT, "--dry-run", "--out", tmp_path, *options, folder=RECIPES, env=env)
    assert done.returncode and sentence in done.stderr


@pytest.mark.parametrize("name", LINES)
def test_smoke_run_ends_in_a_table(name, recipe, tmp_path, request):
    if name != DEFAULT and not request.config.getoption("--all"):
        pytest.skip("--all smokes every recipe")
    done = recipe(name, "--smoke", "--out", tmp_path, folder=RECIPES)
    assert done.returncode == 0, done.stderr[-3000:]
    header, _, *rows = [line.strip("|").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    header = [name.strip() for name in header]
    assert len(rows) == (2 if name == DEFAULT else 4)
    for row in rows:
        row = dict(zip(header, (cell.strip() for cell in row), strict=True))
        assert row["cell"].startswith(("cgru", "self-attention+persistent-convolution"))
        assert float(row["nats per token"]) > float(row["padded"]) > 1  # padding counts, its loss does not
        assert row["lines"] and row["parameters"].endswith("M")
    again = recipe(name, "--smoke", "--out", tmp_path, folder=RECIPES)
    assert again.returncode == 0 and " fairseq-train" not in again.stderr and "score_lines" not in again.stderr


def test_table_4_has_a_row_for_each_cell_and_skips_it_when_it_is_there(recipe, tmp_path, request):
    if not request.config.getoption("--all"):
        pytest.skip("--all smokes every recipe")

    def rows():
        done = recipe("table4_algorithmic.sh", "--smoke", "--out", tmp_path, folder=RECIPES)
        assert done.returncode == 0, done.stderr[-3000:]
        table = [line.strip("| ") for line in done.stdout.splitlines() if line.startswith("| ")]
        header, _, *lines = [line.split(" | ") for line in table]
        return [dict(zip(header, line, strict=True)) for line in lines], done.stderr

    table, _ = rows()
    mixers = ("convolution", "self-attention+persistent-convolution")
    assert [row["cell"] for row in table] == [f"{task}, {mixer}" for task in ("addition", "not") for mixer in mixers]
    assert [row["paper"] for row in table] == ["41", "35", "104", "104"]
    assert all(row["runs"] == "1" and float(row["best"]) == float(row["mean"]) for row in table)
    again, said = rows()
    assert again == table and " fairseq-train" not in said


@pytest.mark.parametrize("name, value", [("MIXERS", "lstm"), ("TASKS", "divide")])
def test_table_4_names_what_there_is(name, value, recipe, tmp_path):
    done = recipe("table4_algorithmic.sh", "--dry-run", "--out", tmp_path, folder=RECIPES, env={name: value})
    assert done.returncode and f"{name}: {value} is none of" in done.stderr
