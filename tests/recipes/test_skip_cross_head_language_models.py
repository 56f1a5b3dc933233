"""The recipes of Skip Cross-Head Transformer-XL: flags, a smoke run of one (--all: of each)."""

import re
from pathlib import Path

import pytest
from dry_runs import commands_of

RECIPES = Path(__file__).resolve().parents[2] / "recipes/skip_cross_head"
ROWS = {  # of a smoke run
    "fig1_2.sh": ["8 layers", "12 layers", "15 layers"],
    "small.sh": ["plain-seed1", "phase-1-seed1", "both-seed1"],
    "table1_enwik8.sh": ["skip-cross-head-1600", "skip-cross-head-3800", "transformer-xl-3800"],
    "table2_wikitext103.sh": ["skip-cross-head-640", "skip-cross-head-2000", "transformer-xl-640"],
    "table3_head_pruning.sh": [f"layer {layer}, {model}" for layer in (1, 2, 3) for model in ("plain", "cross-head")],
    "table5_summary.sh": ["transformer-xl", "cross-head", "phase 1", "phases 1 and 2", "skip-cross-head"],
    "table6_cross_head_p.sh": ["transformer-xl", "cross-head-0.1", "cross-head-0.5"],
    "table7_8_9_skip_schedules.sh": [
        "uniform-0.1", "inner-0.1", "linear", "transformer-xl", "inner-0.1, both phases", "linear, both phases",
    ],
    "table10_heads.sh": [f"heads-{heads}, {model}" for heads in (2, 4) for model in ("transformer-xl", "cross-head")],
}  # fmt: skip
DEFAULT = "fig1_2.sh"


@pytest.mark.parametrize("model, flags", [
    ("cross-head-0.25", "--cross-head-p 0.25"),
    ("not-first-0.1", "--skip-schedule not-first --skip-p 0.1"),
    ("uniform-0.3", "--skip-schedule uniform --skip-p 0.3"),
    ("heads-8", "--decoder-attention-heads 8"),
    ("heads-8-cross-head", "--decoder-attention-heads 8 --cross-head-p 0.1"),
    ("phase-1-moved", "--skipped-layers moved --skip-schedule linear"),
    ("uniform-0.3-moved", "--skipped-layers moved --skip-schedule uniform --skip-p 0.3"),
])  # fmt: skip
def test_a_name_with_a_number_says_the_flags(model, flags, recipe, tmp_path):
    done = recipe("small.sh", "--dry-run", "--out", tmp_path, folder=RECIPES, env={"MODELS": model, "SEEDS": "1"})
    (training,) = (command for command in commands_of(done) if command.startswith("fairseq-train"))
    assert flags in training


def test_positions_of_the_paper_are_scored_by_the_blocks_of_training(recipe, tmp_path):
    env = {"MODELS": "plain", "SEEDS": "1", "POSITIONS": "last-token"}
    commands = commands_of(recipe("small.sh", "--dry-run", "--out", tmp_path, folder=RECIPES, env=env))
    (training,) = (command for command in commands if command.startswith("fairseq-train"))
    assert "--position-scheme last-token --initial-memory zeros" in training
    scored = [command for command in commands if command.startswith("fairseq-eval-lm")]
    assert len(scored) == 2
    assert all("--tokens-per-sample 64" in command and "--model-overrides" not in command for command in scored)


@pytest.mark.parametrize("model, flags", [
    ("phases-inner-0.3", "--skip-p 0.3 --skip-schedule inner"),
    ("phases-inner-0.3-moved", "--skipped-layers moved --skip-p 0.3 --skip-schedule inner"),
    ("phases-moved", "--skipped-layers moved --skip-schedule linear"),
    ("both-moved", "--skipped-layers moved --cross-head-p 0.1 --skip-schedule linear"),
])  # fmt: skip
def test_layers_are_skipped_in_phase_1_only(model, flags, recipe, tmp_path):
    env = {"MODELS": model, "SEEDS": "1"}
    done = recipe("small.sh", "--dry-run", "--out", tmp_path, folder=RECIPES, env=env)
    first, second = (command for command in commands_of(done) if command.startswith("fairseq-train"))
    assert flags in first and "--skip-schedule none" in second


def read_table(output):
    """A Markdown table as {first cell: {column: cell}}."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in output.splitlines() if line[:2] == "| "]
    columns, _, *rows = rows
    return {row[0]: dict(zip(columns, row, strict=True)) for row in rows}


@pytest.mark.parametrize("name", ROWS)
def test_smoke_run_ends_in_a_table(name, recipe, tmp_path, request):
    if name != DEFAULT and not request.config.getoption("--all"):
        pytest.skip("--all smokes every recipe")
    pytest.importorskip("matplotlib")
    done = recipe(name, "--smoke", "--out", tmp_path, folder=RECIPES)
    assert done.returncode == 0, done.stderr[-3000:]
    table = read_table(done.stdout)
    assert list(table) == ROWS[name] and all(value for row in table.values() for value in row.values())
    assert "even guesses" not in done.stderr  # no perplexity is above the number of words
    if name == "fig1_2.sh":
        assert (tmp_path / "smoke/lags.png").stat().st_size > 5000
        assert [row["context, inferred"] for row in table.values()] == ["2.625", "4.583", "6.067"]
    else:
        again = recipe(name, "--smoke", "--out", tmp_path, folder=RECIPES)
        assert again.returncode == 0 and read_table(again.stdout) == table
        assert " fairseq-train" not in again.stderr and " fairseq-eval-lm" not in again.stderr


@pytest.fixture
def phases(tmp_path, recipe):
    """phases() -> the trainings of the paper's model that Table 2 starts, with a fairseq-train that leaves the files of
    a real one: a checkpoint and a log of 12 updates."""
    programs, commands = tmp_path / "programs", tmp_path / "commands"
    programs.mkdir()
    train = programs / "fairseq-train"
    train.write_text(
        f'#!/bin/sh\necho "$@" >> {commands}\nwhile [ "$1" != --save-dir ]; do shift; done\n'
        f'[ ! -e {tmp_path}/kill ] || exit 1\ntouch "$2/checkpoint_last.pt" "$2/checkpoint_best.pt"\n'
        """echo '2026 | INFO | train_inner | {"num_updates": "12"}'\n"""
    )
    train.chmod(0o755)
    script = tmp_path / "recipes/skip_cross_head/recipe.sh"
    script.parent.mkdir(parents=True)
    declarations, _, _ = (RECIPES / "table2_wikitext103.sh").read_text().partition("prepare wikitext103")
    declarations = declarations.replace('"$(dirname "${BASH_SOURCE[0]}")', f'"{RECIPES}')
    training = 'train_phases skip-cross-head "${TRAINING[@]}" --arch skip_cross_head_xl_wikitext103'
    script.write_text(f"{declarations}export PATH={programs}:$PATH DATA=data\n{training}\n")

    def phases(env={}):
        commands.write_text("")
        done = recipe("recipe.sh", "--gpus", 0, "--out", tmp_path / "out", folder=script.parent, env=env)
        return done.returncode, commands.read_text().splitlines()

    return phases


def test_phase_2_begins_with_the_best_of_phase_1_and_all_its_state(phases, tmp_path):
    _, (first, second) = phases()
    assert "--converged-by 0.2 --converged-over 64000" in first and "--restore-file" not in first
    assert "--max-update 1200000" in first and "--skip-schedule" not in first  # the architecture's
    start = f"--restore-file {tmp_path}/out/skip-cross-head-phase1/checkpoint_best.pt --reset-meters"
    assert start in second and "--skip-schedule none --max-update 1200012" in second
    assert not re.search("--reset-(optimizer|lr-scheduler|dataloader)", second)


def test_phase_2_begins_at_a_given_update(phases):
    _, (first, second) = phases({"PHASE_1": "500", "TOTAL": "600"})
    assert "--max-update 500" in first and "--max-update 600" in second
    assert first.count("--max-update") == second.count("--max-update") == 1


def test_what_was_killed_in_either_phase_goes_on_there(phases, tmp_path):
    (tmp_path / "kill").touch()
    status, (first,) = phases()
    assert status and "skip-cross-head-phase1" in first
    (tmp_path / "kill").unlink()
    phases()
    (tmp_path / "out/skip-cross-head/trained").unlink()  # as if killed after a checkpoint of phase 2
    _, (second,) = phases()
    assert f"--save-dir {tmp_path}/out/skip-cross-head " in second and "--restore-file" not in second
    assert phases() == (0, [])
