"""Transformer-XL with Skip-Retain and cross-head attention through the real commands."""

import re
import sys
from pathlib import Path

import pytest
import torch
from trainings import assert_same_weights, torchrun

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def command(letters, user_dir) -> list[str]:
    """Twelve updates, in which layers are skipped and heads crossed often; the memory is of two and a half blocks."""
    return (
        f"fairseq-train {letters} --user-dir {user_dir} --task streaming_language_modeling --criterion streaming_lm"
        " --arch transformer_xl_lm_tiny --decoder-layers 4 --mem-len 20 --skip-schedule uniform --skip-p 0.4"
        " --cross-head-p 0.5 --optimizer adam --lr 0.003 --weight-decay 0.1 --tokens-per-sample 8 --cpu --num-workers 0"
        " --disable-validation --no-epoch-checkpoints --no-progress-bar --log-format simple"
    ).split()


@pytest.fixture(scope="module")
def trained(run, command, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    run(*command, "--batch-size", 4, "--max-update", 12, "--save-dir", folder)
    return folder / "checkpoint_last.pt"


def test_two_ranks_skip_and_cross_as_one_does_with_either_backend_and_after_resuming(run, command, trained, tmp_path):
    two = [*command, "--batch-size", 2, "--save-dir", tmp_path]
    torchrun(run, two, "--max-update", 7)
    torchrun(run, two, "--max-update", 12, "--ddp-backend", "legacy_ddp")
    assert_same_weights(trained, tmp_path, **CLOSE)


def test_two_ranks_move_skipped_layers_as_one_does(run, command, trained, tmp_path):
    command = [*command, "--skipped-layers", "moved", "--max-update", 12]
    run(*command, "--batch-size", 4, "--save-dir", tmp_path / "one")
    torchrun(run, command, "--batch-size", 2, "--save-dir", tmp_path / "two")
    one = tmp_path / "one/checkpoint_last.pt"
    assert_same_weights(one, tmp_path / "two", **CLOSE)
    assert {*steps_of(torch.load(one))} == {12}
    with pytest.raises(AssertionError):
        assert_same_weights(one, trained, **CLOSE)  # whose skipped layers are frozen


def steps_of(checkpoint):
    """Adam's number of steps, parameter by parameter."""
    return [state["step"] for state in checkpoint["last_optimizer_state"]["state"].values()]


@pytest.fixture(scope="module")
def last_token(run, command, tmp_path_factory) -> Path:
    """A model with the positions that Skip Cross-Head models have."""
    folder = tmp_path_factory.mktemp("last")
    positions = ["--position-scheme", "last-token", "--initial-memory", "zeros"]
    run(*command, *positions, "--batch-size", 4, "--max-update", 12, "--save-dir", folder)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def evaluate(letters, user_dir, trained) -> list[str]:
    return (
        f"fairseq-eval-lm {letters} --user-dir {user_dir} --task streaming_language_modeling --path {trained}"
        " --gen-subset test --batch-size 1 --cpu --num-workers 0"
    ).split()


def test_with_same_length_the_figure_does_not_depend_on_the_block(run, evaluate):
    longer = "{'mem_len': 40, 'clamp_len': 20, 'same_length': True}"
    figures = []
    for block in (8, 30):
        done = run(*evaluate, "--tokens-per-sample", block, "--model-overrides", longer)
        figures.append(re.search(r"with end-of-line: (\d+) tokens, ([\d.]+) nats", done.stdout + done.stderr).groups())
    (tokens, nats), (other_tokens, other_nats) = figures
    assert tokens == other_tokens == "128"
    assert float(nats) == pytest.approx(float(other_nats), abs=1e-3)


def test_an_override_of_no_option_is_refused(run, evaluate):
    done = run(*evaluate, "--model-overrides", "{'memlen': 40}", check=False)
    told = [line for line in done.stderr.splitlines() if line.startswith("fairseq_plugins: error: ")]
    assert done.returncode and len(told) == 1 and "the checkpoint has no option memlen" in told[0], done.stderr[-3000:]


@pytest.mark.parametrize("model", ["trained", "last_token"])
def test_it_writes_text(run, model, letters, request):
    done = run(
        sys.executable, "-m", "fairseq_plugins.tools.sample", "--path", request.getfixturevalue(model),
        "--data", letters, "--prompt", "abc", "--length", 30, "--top-k", 3,
    )  # fmt: skip
    assert re.fullmatch("abc[a-f\n]{30}\n", done.stdout)


def test_phase_2_goes_on_with_all_of_phase_1s_state(run, letters, user_dir, tmp_path):
    """In a folder of its own."""
    first, second = tmp_path / "phase1", tmp_path / "phase2"
    command = (
        f"fairseq-train {letters} --user-dir {user_dir} --task streaming_language_modeling --criterion streaming_lm"
        " --arch transformer_xl_lm_tiny --decoder-layers 4 --mem-len 8 --optimizer adam --lr 0.003"
        " --lr-scheduler cosine_wave --lr-period-updates 5 --batch-size 2 --tokens-per-sample 8 --cpu --num-workers 0"
        " --no-epoch-checkpoints --log-format json --log-interval 1 --skip-p 0.6 --skip-schedule"
    ).split()
    run(*command, "uniform", "--max-update", 7, "--save-dir", first)
    start = ["--restore-file", first / "checkpoint_best.pt", "--reset-meters"]
    done = run(*command, "none", "--max-update", 9, "--save-dir", second, *start)
    said = done.stdout + done.stderr
    assert '"num_updates": "7"' not in said and '"num_updates": "8", "lr": "0.00196353"' in said
    before, after = (torch.load(folder / "checkpoint_best.pt") for folder in (first, second))
    steps = [steps_of(before), steps_of(after)]
    assert min(steps[0]) < max(steps[0]) == 7  # skipped layers took no part
    assert steps[1] == [step + 2 for step in steps[0]]
    assert after["extra_state"]["train_iterator"]["iterations_in_epoch"] == 9
