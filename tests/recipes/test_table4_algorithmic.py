"""recipes/active_memory/table4_algorithmic.sh: many trainings at a time, and a table of those that are there."""

from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[2] / "recipes/active_memory"


def table_4(recipe, folder, **env):
    """The rows of a smoke run of so much of Table 4, and what it said."""
    done = recipe("table4_algorithmic.sh", "--smoke", "--out", folder, folder=RECIPES, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    table = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    header, _, *rows = table
    return [dict(zip(header, row, strict=True)) for row in rows], done.stderr


def test_table_4_counts_every_run_that_is_there(recipe, tmp_path):
    some = {"TASKS": "not", "MIXERS": "convolution"}
    (first,), _ = table_4(recipe, tmp_path, **some)
    assert first["cell"] == "not, convolution" and first["paper"] == "104" and first["runs"] == "1"
    assert float(first["best"]) == float(first["mean"]) >= 5
    assert first["command"].startswith("MIXERS='convolution' TASKS='not' recipes/active_memory/table4_algorithmic.sh")
    (both,), said = table_4(recipe, tmp_path, SEEDS="2", **some)
    assert both["runs"] == "2" and "convolution-seed1" not in said
    (again,), said = table_4(recipe, tmp_path, SEEDS="2", **some)
    assert again == both and " fairseq-train" not in said


def test_table_4_shows_what_is_there_and_names_what_failed(recipe, tmp_path):
    for seed in (1, 2):
        folder = tmp_path / f"smoke/not/convolution-seed{seed}"
        folder.mkdir(parents=True)
        logged = f'{{"epoch": 1, "valid_num_updates": "1", "valid_reached": "{seed}0"}}\n'
        (folder / "train.log").write_text(logged)
    (tmp_path / "smoke/not/convolution-seed1/trained").touch()
    (tmp_path / "smoke/not/convolution-seed2/checkpoint_last.pt").write_text("damaged")
    env = {"TASKS": "not", "MIXERS": "convolution", "SEEDS": "1 2", "JOBS": "1"}
    done = recipe("table4_algorithmic.sh", "--smoke", "--out", tmp_path, folder=RECIPES, env=env)
    assert done.returncode == 1 and "| not, convolution | 10 | 10 | 1 | 104 |" in done.stdout
    assert "convolution-seed2 is not trained" in done.stderr and "convolution-seed1 is not" not in done.stderr


def test_trainings_of_table_4_share_gpus_and_failures_are_named(altered, tmp_path):
    """With a fairseq-train that notes its GPU and fails for one training."""
    train = (
        f'echo "$CUDA_VISIBLE_DEVICES $*" >>{tmp_path}/starts\nsleep 0.5\ncase "$*" in *cgru-seed1*) exit 1 ;; esac\n'
        """echo '{"epoch": 1, "valid_num_updates": "1", "valid_reached": "5"}'"""
    )
    env = {"TASKS": "not", "MIXERS": "cgru convolution", "SEEDS": "1 2", "CUDA_VISIBLE_DEVICES": "3,5"}
    name = "active_memory/table4_algorithmic.sh"
    done = altered(name, "--gpus", 2, programs={"fairseq-train": train}, env=env)
    starts = (tmp_path / "starts").read_text().splitlines()
    assert len(starts) == 4 and {line.split()[0] for line in starts} == {"3", "5"}
    named = [line for line in done.stderr.splitlines() if "is not trained" in line]
    sentence = f"table4_algorithmic: {tmp_path}/out/not/cgru-seed1 is not trained: its train.log says why; call again."
    assert done.returncode == 1 and named == [sentence]


def test_table_4_has_a_row_for_each_cell(recipe, tmp_path, request):
    if not request.config.getoption("--all"):
        pytest.skip("--all smokes every recipe")
    table, _ = table_4(recipe, tmp_path)
    mixers = ("convolution", "self-attention+persistent-convolution")
    assert [row["cell"] for row in table] == [f"{task}, {mixer}" for task in ("addition", "not") for mixer in mixers]
    assert [row["paper"] for row in table] == ["41", "35", "104", "104"]
