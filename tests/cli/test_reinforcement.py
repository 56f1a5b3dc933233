"""Reinforcement learning through the real commands."""

import re
import sys
from pathlib import Path

import fairseq  # noqa: F401
import pytest
import torch

import fairseq_plugins  # noqa: F401  (allows torch.load to read checkpoints)

pytest.importorskip("gymnasium")

CORRIDOR = "fairseq_plugins/Corridor-v0"
RMSPROP, SGD = ("--optimizer", "rmsprop", "--rmsprop-eps", 0.01), ("--optimizer", "sgd")
BIN = Path(sys.executable).parent


@pytest.fixture(scope="session")
def train(run, user_dir):
    """train(options..., arch=, environment=, settings=): a small training."""

    def train(
        *options,
        arch="feedback_agent_tiny",
        environment=CORRIDOR,
        settings='{"length": 4}',
        runner=run,
        optimizer=RMSPROP,
    ):
        command = (
            f"fairseq-train --user-dir {user_dir} --task reinforcement_learning --criterion a2c --arch {arch} --bptt 6"
            " --batch-size 8 --updates-per-epoch 8 --test-episodes 4 --lr 0.01"
            " --clip-norm 1 --cpu --num-workers 0 --no-progress-bar --log-format simple --log-interval 1"
        ).split()
        command += ["--environment", environment, "--environment-settings", settings, *optimizer, *options]
        return runner(*command)

    return train


def parameters(folder: Path) -> dict:
    return torch.load(folder / "checkpoint_last.pt")["model"]


def assert_same(one: Path, other: Path, **tolerance):
    one, other = parameters(one), parameters(other)
    for name in one:
        torch.testing.assert_close(one[name], other[name], **(tolerance or {"rtol": 0, "atol": 0}))


def rewards(done) -> list[str]:
    return re.findall(r"train_inner \|.* policy_loss=([^,]+),", done.stdout)


@pytest.mark.parametrize("arch", ["feedback_agent_tiny", "span_transformer_agent_tiny", "lstm_agent_tiny"])
def test_resumed_is_uninterrupted(train, arch, tmp_path):
    """In the middle of an epoch, of blocks and of episodes."""
    whole = train("--max-update", 12, "--save-interval-updates", 5, "--save-dir", tmp_path / "whole", arch=arch)
    (checkpoint,) = (tmp_path / "whole").glob("checkpoint_*_5.pt")
    rest = train("--max-update", 12, "--restore-file", checkpoint, "--save-dir", tmp_path / "rest", arch=arch)
    assert rewards(rest) == rewards(whole)[5:] != []
    assert_same(tmp_path / "whole", tmp_path / "rest")


def test_two_ranks_are_one_with_twice_the_environments(run, train, tmp_path):
    def torchrun(command, *options):
        return run("torchrun", "--standalone", "--nproc_per_node", 2, BIN / command, *options)

    options = ("--max-update", 10, "--lr", 0.1)
    train(*options, "--save-dir", tmp_path / "one", optimizer=SGD)
    train(*options, "--batch-size", 4, "--save-dir", tmp_path / "two", runner=torchrun, optimizer=SGD)
    assert_same(tmp_path / "one", tmp_path / "two", rtol=1e-4, atol=1e-6)


def test_an_agent_learns(train, tmp_path):
    """A corridor of two cells: a coin gives 0.5."""
    options = ("--max-update", 400, "--updates-per-epoch", 400, "--lr", 0.003, "--entropy-cost", 0.01, "--bptt", 12)
    done = train(*options, "--batch-size", 32, "--save-dir", tmp_path, settings='{"length": 2}')
    reward = float(re.findall(r"valid \|.* reward ([\d.]+)", done.stdout)[-1])
    assert reward > 0.9


def test_any_environment_of_gymnasium(train, tmp_path):
    done = train("--max-update", 2, "--save-dir", tmp_path, environment="CartPole-v1", settings="")
    assert "reward" in done.stdout
    again = train("--max-update", 3, "--save-dir", tmp_path, environment="CartPole-v1", settings="")
    assert "new episodes begin" in again.stdout


@pytest.mark.parametrize(
    "options, words",
    [
        ({"environment": "fairseq_plugins/Corridor-v9"}, "--environment fairseq_plugins/Corridor-v9"),
        ({"environment": "Pendulum-v1", "settings": ""}, "has actions of Box"),
        ({"settings": '{"length": 1}'}, "length 1 is not a whole number from 2"),
        ({"settings": "length"}, "--environment-settings 'length' cannot be made"),
        ({"more": ["--bptt", 0]}, "--bptt 0"),
        ({"more": ["--batch-size", 0]}, "--batch-size"),
        ({"more": ["--max-tokens", 100]}, "takes --batch-size"),
        ({"more": ["--discount", 2]}, "--discount 2"),
        ({"arch": "feedback_lm_tiny"}, "feedback_lm_tiny"),
    ],
)
def test_wrong_input_is_one_sentence(run, train, options, words, tmp_path):
    def fails(*command):
        return run(*command, check=False)

    more = options.pop("more", [])
    done = train(*more, "--max-update", 1, "--save-dir", tmp_path, runner=fails, **options)
    assert words in done.stderr and "Traceback" not in done.stderr
