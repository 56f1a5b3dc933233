"""The Feedback Transformer's tables on translation and summarisation: dry runs of all recipes, a smoke run of one
(--all: of each)."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = [
    "deep_encoder_wmt14.sh", "fig4_wmt14_depth.sh", "fig7_cnndm_depth.sh", "fig7_iwslt_depth.sh", "table2_wmt14.sh",
    "table5_speed_translation.sh",
]  # fmt: skip
DEFAULT = "table2_wmt14.sh"


@pytest.mark.parametrize("name", RECIPES)
def test_dry_run_parses_every_command_and_runs_none(name, recipe, tmp_path):
    done = recipe(name, "--dry-run", "--gpus", 8, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d+ commands parsed, 0 refused", done.stdout.strip())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("flag, line", [
    ("--save-interval-updates", "train_wmt14 feedback $FEEDBACK $LAYERS"),
    ("--compound-split", "test_wmt14 feedback"),
])  # fmt: skip
def test_dry_run_names_the_line_of_a_misspelt_flag(flag, line, recipe, tmp_path):
    """A copy of the repository's scripts with one flag misspelt."""
    for folder in ("recipes", "preprocess", "fairseq_plugins"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shared = tmp_path / "recipes/feedback/wmt14.sh"
    shared.write_text(shared.read_text().replace(flag, flag + "z"))
    done = recipe(DEFAULT, "--dry-run", folder=shared.parent)
    assert done.returncode == 1
    number = (shared.parent / DEFAULT).read_text().splitlines().index(line) + 1
    assert re.search(rf"{DEFAULT}:{number}: error: .*{flag}z", done.stderr)


@pytest.mark.parametrize("options, sentence", [
    (["--somke"], "there is no option --somke"),
    (["--smoke", "--raw"], "--raw needs a value"),
    (["--raw", "--smoke"], "--raw needs a value"),
    (["--raw", "/nowhere"], "--raw /nowhere does not exist"),
    (["--gpus", "all"], "--gpus all is no number"),
])  # fmt: skip
def test_wrong_options_end_in_one_sentence(options, sentence, recipe):
    done = recipe(DEFAULT, *options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"table2_wmt14: error: {sentence}") and done.stderr.count("\n") == 1


def test_help_is_the_header_and_the_options(recipe):
    done = recipe(DEFAULT, "--help")
    assert done.returncode == 0
    assert "Feedback Transformer 29.5" in done.stdout and "--dry-run" in done.stdout and "set -euo" not in done.stdout


@pytest.mark.parametrize("name", RECIPES)
def test_smoke_run_ends_in_a_table(name, recipe, tmp_path, request):
    if name != DEFAULT and not request.config.getoption("--all"):
        pytest.skip("--all smokes every recipe")
    done = recipe(name, "--smoke", "--out", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    table = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    rows = {row[0].removeprefix("| "): dict(zip(table[0], row)) for row in table[2:]}
    assert any(row.startswith("feedback") for row in rows) and any(row.startswith("transformer") for row in rows)
    assert all(value.strip() for row in rows.values() for value in row.values())
    assert all(float(row["sacreBLEU"]) > 0 for row in rows.values() if "sacreBLEU" in row)

    if name == DEFAULT:
        assert float(rows["feedback"]["BLEU"]) > 5  # 28 where it was last measured

    again = recipe(name, "--smoke", "--out", tmp_path)
    assert again.returncode == 0
    for finished in ("fairseq-train", "fairseq-generate", "score_translations", "average_checkpoints"):
        assert f" {finished}" not in again.stderr and f".{finished}" not in again.stderr
    assert [line for line in again.stdout.splitlines() if line.startswith("| ")] == [
        line for line in done.stdout.splitlines() if line.startswith("| ")
    ]


def test_killed_training_goes_on_where_it_was(recipe, venv, tmp_path):
    log = tmp_path / "smoke/transformer/train.log"
    command = ["bash", ROOT / "recipes/feedback/table5_speed_translation.sh", "--smoke", "--out", tmp_path]
    started = subprocess.Popen(
        command, env={**os.environ, "VENV": str(venv)}, start_new_session=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while started.poll() is None and not (log.parent / "checkpoint_last.pt").exists():
            time.sleep(0.05)
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    assert not (log.parent / "trained").exists()
    before = len(log.read_text())
    done = recipe("table5_speed_translation.sh", "--smoke", "--out", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    resumed = log.read_text()[before:]
    assert re.search(r"Loaded checkpoint \S+ \(epoch \d+ @ [1-9]\d+ updates\)", resumed)
    assert "num_updates=5," not in resumed and "num_updates=30," in resumed
