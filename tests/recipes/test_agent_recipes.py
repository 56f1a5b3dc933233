"""The recipes of the Feedback paper's agents: flags, a smoke run of one (--all: of each)."""

import re
from pathlib import Path

import pytest

pytest.importorskip("gymnasium")

RECIPES = Path(__file__).resolve().parents[2] / "recipes/feedback"
ROWS = {  # of a smoke run
    "fig3_corridor.sh": ["feedback-2", "feedback-4", "transformer-2", "transformer-4"],
    "fig4_maze.sh": ["feedback", "lstm"],
    "fig6_maze_easy.sh": ["feedback", "lstm"],
    "fig6_water_maze.sh": ["feedback", "lstm"],
    "table5_speed_rl.sh": ["feedback", "transformer", "feedback / transformer"],
}
DEFAULT = "fig3_corridor.sh"


def test_the_lstm_has_its_own_rate_and_no_span(recipe, tmp_path):
    env = {"SEEDS": "1", "MODELS": "transformer lstm"}
    done = recipe("fig6_water_maze.sh", "--dry-run", "--out", tmp_path, folder=RECIPES, env=env)
    transformer, lstm = (line for line in done.stdout.splitlines() if "fairseq-train" in line)
    assert "--lr 0.0003 --attention-span 200" in transformer
    assert "--lr 0.0004" in lstm and "--attention-span" not in lstm


def test_a_speed_alone_has_no_ratio(recipe, tmp_path):
    out = tmp_path / "100%s"
    done = recipe("table5_speed_rl.sh", "--dry-run", "--out", out, folder=RECIPES, env={"MODELS": "lstm"})
    assert done.returncode == 0 and "ratio" not in done.stdout


@pytest.mark.parametrize("name", ROWS)
def test_smoke_run_ends_in_a_table(name, recipe, tmp_path, request):
    if name != DEFAULT and not request.config.getoption("--all"):
        pytest.skip("--all smokes every recipe")
    pytest.importorskip("matplotlib")
    done = recipe(name, "--smoke", "--out", tmp_path, folder=RECIPES)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = re.findall(r"^\| (\w.*?) \| [\d.]+ \|", done.stdout, re.MULTILINE)
    assert rows == ROWS[name]
    assert (tmp_path / "smoke/rewards.png").exists() == name.startswith("fig")
    again = recipe(name, "--smoke", "--out", tmp_path, folder=RECIPES)
    assert done.stdout.endswith(again.stdout) and rows and "fairseq-train" not in again.stderr
