"""The Feedback Transformer's tables on translation and summarisation: wrong flags, a smoke run of one that
is killed in between (--all: of each)."""

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
TABLE_2 = "table2_wmt14.sh"
KILLED = "table5_speed_translation.sh"


@pytest.mark.parametrize("flag, line", [
    ("--save-interval-updates",
     'train feedback "${TRAINING[@]}" --arch feedback_transformer_wmt "${FEEDBACK_DROPOUT[@]}"'),
    ("--compound-split", '    test_wmt14 "$model"'),
])  # fmt: skip
def test_dry_run_names_the_line_of_a_misspelt_flag(flag, line, recipe, tmp_path):
    """A copy of the repository's scripts with one flag misspelt."""
    for folder in ("recipes", "preprocess", "fairseq_plugins"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    copy = tmp_path / "recipes/feedback" / TABLE_2
    copy.write_text(copy.read_text().replace(flag, flag + "z"))
    done = recipe(TABLE_2, "--dry-run", folder=copy.parent)
    assert done.returncode == 1 and done.stdout == ""  # nothing that could be piped into a shell
    number = copy.read_text().splitlines().index(line) + 1
    assert re.search(rf"{TABLE_2}:{number}: error: .*{flag}z", done.stderr)


@pytest.mark.parametrize("options, sentence", [
    (["--somke"], "there is no option --somke"),
    (["--smoke", "--raw"], "--raw needs a value"),
    (["--raw", "--smoke"], "--raw needs a value"),
    (["--raw", "/nowhere"], "--raw /nowhere does not exist"),
    (["--gpus", "all"], "--gpus all is no number"),
    (["--commands", "/nowhere/commands"], "--commands /nowhere/commands cannot be written"),
])  # fmt: skip
def test_wrong_options_end_in_one_sentence(options, sentence, recipe):
    done = recipe(TABLE_2, *options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"table2_wmt14: error: {sentence}") and done.stderr.count("\n") == 1


def test_help_is_the_header_and_the_options(recipe):
    done = recipe(TABLE_2, "--help")
    assert done.returncode == 0
    assert "Feedback Transformer 29.5" in done.stdout and "--dry-run" in done.stdout and "set -euo" not in done.stdout


def table(done) -> list[str]:
    """The lines of the table that a recipe printed last."""
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line.startswith("| ")]


def check_smoke(name, recipe, folder) -> dict[str, dict[str, str]]:
    """A smoke run ends in a table of both models; another call prints it again and does nothing else."""
    printed = table(recipe(name, "--smoke", "--out", folder))
    header, _, *cells = [line.split(" | ") for line in printed]
    rows = {row[0].removeprefix("| "): dict(zip(header, row)) for row in cells}
    assert any(row.startswith("feedback") for row in rows) and any(row.startswith("transformer") for row in rows)
    assert all(value.strip() for row in rows.values() for value in row.values())
    assert all(float(row["sacreBLEU"]) > 0 for row in rows.values() if "sacreBLEU" in row)

    again = recipe(name, "--smoke", "--out", folder)
    assert table(again) == printed
    for finished in ("fairseq-train", "fairseq-generate", "score_translations", "average_checkpoints"):
        assert f" {finished}" not in again.stderr and f".{finished}" not in again.stderr
    return rows


@pytest.mark.parametrize("name", sorted({*RECIPES} - {KILLED}))
def test_smoke_run_ends_in_a_table(name, recipe, tmp_path, request):
    if not request.config.getoption("--all"):
        pytest.skip("--all smokes every recipe")
    rows = check_smoke(name, recipe, tmp_path)
    if name == TABLE_2:
        assert float(rows["feedback"]["BLEU"]) > 5  # 28 where it was last measured


def test_killed_smoke_run_goes_on_where_it_was(recipe, venv, tmp_path):
    log = tmp_path / "smoke/transformer/train.log"
    command = ["bash", ROOT / "recipes/feedback" / KILLED, "--smoke", "--out", tmp_path]
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
    check_smoke(KILLED, recipe, tmp_path)
    resumed = log.read_text()[before:]
    assert re.search(r"Loaded checkpoint \S+ \(epoch \d+ @ [1-9]\d+ updates\)", resumed)
    assert "num_updates=5," not in resumed and "num_updates=30," in resumed
