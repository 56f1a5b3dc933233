"""What recipes make of trainings: changed settings, divergence, two phases; with a fairseq-train that does little."""

import re
import sys
from pathlib import Path

import pytest

LIB = Path(__file__).resolve().parents[2] / "recipes/lib.sh"


def test_what_is_trained_is_not_taken_for_a_training_with_other_settings(recipe, tmp_path):
    program = tmp_path / "fairseq-train"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "recipe.sh").write_text(
        f"set -euo pipefail\nsource {LIB}\nSETTINGS+=([UPDATES]=100)\nCHOICES+=([MODELS]=all)\n"
        f'begin "$@"\nexport PATH={tmp_path}:$PATH\n'
        'train small --max-update "$UPDATES"\necho "$(given SETTINGS CHOICES | tr "\\n" " ")$CALL, $MODELS"\n'
    )

    def call(*flags, **env):
        return recipe("recipe.sh", "--gpus", 0, "--out", tmp_path / "out", *flags, folder=tmp_path, env=env)

    first = call(UPDATES="7 ", MODELS="a b")
    assert first.returncode == 0 and "--max-update '7 '" in first.stderr
    assert first.stdout.splitlines()[-1].startswith("MODELS='a b' UPDATES='7 ' ")
    again = call(UPDATES="7 ", MODELS="c")
    assert again.returncode == 0 and "small is trained" in again.stderr
    other = call()
    assert other.returncode == 2 and other.stdout == ""
    assert re.search(r"out/small was begun with UPDATES='7 ', this call has the defaults: give an --out", other.stderr)
    flags = call("--", "--seed", "2", UPDATES="7 ")
    assert flags.returncode == 2 and "begun with the defaults, this call has flags '--seed' '2': give" in flags.stderr


@pytest.mark.parametrize("variables, flags, sentence", [
    ({"UPDATES": "60.0"}, [], "UPDATES: 60.0 does not fit"),
    ({"UPDATES": "1e3"}, [], "UPDATES: 1e3 does not fit"),
    ({"PASS": "0100"}, [], "PASS: 0100 does not fit; write 100"),
    ({"SEEDS": "2 02"}, [], "SEEDS: 02 does not fit"),
    ({"SEEDS": "2 2"}, [], "SEEDS: 2 is given twice"),
    ({}, ["--", "--seed", "7"], "--seed: set SEEDS in place of this flag"),
    ({"BPE": "sentencepiece", "LEARNING_RATE": "1e-3", "SEEDS": "1 2"}, [], ""),
])  # fmt: skip
def test_numbers_with_which_a_recipe_computes_are_checked(recipe, variables, flags, sentence, tmp_path):
    (tmp_path / "recipe.sh").write_text(
        f"set -euo pipefail\nsource {LIB}\nSETTINGS+=([UPDATES]=100 [PASS]='' [BPE]=300)\n"
        'WORDS+=([LEARNING_RATE]=0.5)\nCHOICES+=([SEEDS]="1 2 3")\nbegin "$@"\n'
    )
    done = recipe("recipe.sh", "--gpus", 0, "--out", tmp_path / "out", *flags, folder=tmp_path, env=variables)
    assert done.returncode == 2 * bool(sentence) and sentence in done.stderr, done.stderr


@pytest.mark.parametrize("said, goes_on", [("training diverged at update 7, block 6", True), ("out of memory", False)])
def test_a_baseline_that_diverges_is_a_result_and_nothing_else_is(said, goes_on, altered, tmp_path):
    programs = {
        "fairseq-train": f'echo "{said}" >&2; exit 1', "fairseq-eval-lm": ":",
        "python": f'case $* in *recipes/lib/*) exec {sys.executable} "$@" ;; esac',
    }  # fmt: skip
    name = "all_attention/appendix_b_baselines.sh"
    done = altered(name, "--gpus", 0, "--data", tmp_path / "data", programs=programs)
    assert said in done.stderr
    assert (done.returncode == 0) == goes_on
    trained = tmp_path / "out/transformer-36/diverged"
    assert trained.exists() == goes_on and (not goes_on or trained.read_text() == "diverged at update 7\n")


@pytest.fixture
def phases(altered, tmp_path):
    """phases() -> the status, and the trainings that Table 2 starts of the paper's model, with a fairseq-train that
    leaves the files of a real one: checkpoints and a log of 12 updates."""
    commands = tmp_path / "commands"
    train = (
        f'echo "$@" >> {commands}\nwhile [ "$1" != --save-dir ]; do shift; done\n[ ! -e {tmp_path}/kill ] || exit 1\n'
        'touch "$2/checkpoint_last.pt" "$2/checkpoint_best.pt"\necho \'{"epoch": 1, "num_updates": "12"}\''
    )
    training = 'DATA=data\ntrain_phases skip-cross-head "${TRAINING[@]}" --arch skip_cross_head_xl_wikitext103\n'

    def phases(env={}):
        commands.write_text("")
        done = altered(
            "skip_cross_head/table2_wikitext103.sh", "--gpus", 0, programs={"fairseq-train": train}, env=env,
            change=lambda text: text.partition("prepare wikitext103")[0] + training,
        )  # fmt: skip
        return done.returncode, commands.read_text().splitlines()

    return phases


def test_phase_2_begins_with_the_best_of_phase_1_and_all_its_state(phases, tmp_path):
    _, (first, second) = phases()
    assert "--restore-file" not in first and "--skip-schedule" not in first  # the architecture's
    assert "--max-update 1200000" in first and "--skip-schedule none --max-update 1200012" in second
    assert f"--restore-file {tmp_path}/out/skip-cross-head-phase1/checkpoint_best.pt --reset-meters" in second
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
