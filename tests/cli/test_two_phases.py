"""Phase 2 of Skip-Retain training goes on with all of phase 1's state, in a folder of its own."""

import random

import pytest
import torch

from fairseq_plugins import compat  # noqa: F401  (allows torch.load to read fairseq's checkpoints)


@pytest.fixture
def command(run, user_dir, tmp_path):
    """A training whose only epoch has 30 blocks."""
    draw = random.Random(1)
    for split in ("train", "valid"):
        (tmp_path / split).write_text("".join(" ".join(draw.choices("abcdef", k=15)) + "\n" for _ in range(30)))
    prefixes = [word for split in ("train", "valid") for word in (f"--{split}pref", tmp_path / split)]
    run("fairseq-preprocess", "--only-source", *prefixes, "--destdir", tmp_path / "bin")
    return (
        f"fairseq-train {tmp_path / 'bin'} --user-dir {user_dir} --task streaming_language_modeling --criterion"
        " streaming_lm --arch transformer_xl_lm_tiny --decoder-layers 4 --mem-len 8 --optimizer adam --lr 0.003"
        " --lr-scheduler cosine_wave --lr-period-updates 5 --batch-size 2 --tokens-per-sample 8 --cpu --num-workers 0"
        " --no-epoch-checkpoints --log-format json --log-interval 1"
    ).split()


def steps_of(checkpoint):
    """Adam's number of steps, parameter by parameter."""
    return [state["step"] for state in checkpoint["last_optimizer_state"]["state"].values()]


def test_momentum_moves_skipped_layers_on_if_asked(run, command, tmp_path):
    command += ["--skip-schedule", "uniform", "--skip-p", 0.6, "--skipped-layers", "moved"]
    run(*command, "--max-update", 7, "--save-dir", tmp_path)
    assert set(steps_of(torch.load(tmp_path / "checkpoint_last.pt"))) == {7}


def test_phase_2(run, command, tmp_path):
    first, second = tmp_path / "phase1", tmp_path / "phase2"
    command += ["--skip-schedule", "uniform", "--skip-p", 0.6]
    run(*command, "--max-update", 7, "--save-dir", first)
    start = ["--restore-file", first / "checkpoint_best.pt", "--reset-meters"]
    done = run(*command, "--skip-schedule", "none", "--max-update", 9, "--save-dir", second, *start)
    said = done.stdout + done.stderr
    assert '"num_updates": "7"' not in said and '"num_updates": "8", "lr": "0.00196353"' in said
    before, after = (torch.load(folder / "checkpoint_best.pt") for folder in (first, second))
    steps = [steps_of(before), steps_of(after)]
    assert min(steps[0]) < max(steps[0]) == 7  # skipped layers took no part
    assert steps[1] == [step + 2 for step in steps[0]]
    assert after["extra_state"]["train_iterator"]["iterations_in_epoch"] == 9
