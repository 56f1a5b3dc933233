"""Reinforcement learning through the real commands."""

import itertools
import re
import shutil

import pytest
from trainings import assert_same_weights, torchrun

CORRIDOR = "fairseq_plugins/Corridor-v0"
RMSPROP, SGD = ("--optimizer", "rmsprop", "--rmsprop-eps", 0.01), ("--optimizer", "sgd")


@pytest.fixture(scope="session")
def train(run, user_dir):
    """train(options..., arch=, environment=, settings=): a small training."""

    def train(
        *options,
        criterion="a2c",
        arch="feedback_agent_tiny",
        environment=CORRIDOR,
        settings='{"length": 4}',
        runner=run,
        optimizer=RMSPROP,
    ):
        command = (
            f"fairseq-train --user-dir {user_dir} --task reinforcement_learning --criterion {criterion} --arch {arch}"
            " --bptt 6 --batch-size 8 --updates-per-epoch 8 --test-episodes 4 --lr 0.01"
            " --clip-norm 1 --cpu --num-workers 0 --no-progress-bar --log-format simple --log-interval 1"
        ).split()
        command += ["--environment", environment, "--environment-settings", settings, *optimizer, *options]
        return runner(*command)

    return train


def losses(done) -> list[str]:
    """Of the policy, an update each."""
    return re.findall(r"train_inner \|.* policy_loss=([^,]+),", done.stdout)


@pytest.fixture(scope="module")
def trained(train, tmp_path_factory):
    """The folder of a training of two updates."""
    folder = tmp_path_factory.mktemp("trained")
    train("--max-update", 2, "--save-dir", folder)
    return folder


@pytest.mark.parametrize("options", [["--finetune-from-model"], ["--reset-dataloader", "--restore-file"]])
def test_new_episodes_begin(train, trained, options, tmp_path):
    """Where the environments' state is not wanted, no file beside the checkpoint is needed."""
    alone = tmp_path / "alone.pt"
    alone.write_bytes((trained / "checkpoint_last.pt").read_bytes())
    done = train(*options, alone, "--max-update", 4, "--save-dir", tmp_path / "save")
    assert "new episodes begin" in done.stdout and losses(done)


@pytest.mark.parametrize("changes, words", [
    ({"settings": '{"length": 5}'}, '{"length": 5} is not that of the checkpoint, --environment'),
    ({"more": ["--batch-size", 4]}, "--batch-size 4 differs from the 8 of the checkpoint"),
    ({"damage": b"damaged"}, "delete it and begin new episodes with --reset-dataloader"),
    ({"damage": None}, "the state of the environments of "),
    (
        {"more": ["--updates-per-epoch", 3]},
        "the middle of an epoch with --updates-per-epoch 8, where this training has 3",
    ),
    ({"more": ["--bptt", 4]}, "the middle of an epoch with --bptt 6, where this training has 4"),
    ({"more": ["--seed", 5]}, "the middle of an epoch with --seed 1, where this training has 5"),
])  # fmt: skip
def test_a_state_that_does_not_fit_is_one_sentence(run, train, trained, changes, words, tmp_path):
    checkpoint = tmp_path / "checkpoint.pt"
    checkpoint.write_bytes((trained / "checkpoint_last.pt").read_bytes())
    state = (trained / "checkpoint_last.pt.memory-0-of-1").read_bytes()
    if (state := changes.pop("damage", state)) is not None:
        checkpoint.with_name("checkpoint.pt.memory-0-of-1").write_bytes(state)
    options = ["--max-update", 4, *changes.pop("more", []), "--restore-file", checkpoint, "--save-dir", tmp_path]
    done = train(*options, runner=lambda *command: run(*command, check=False), **changes)
    assert done.returncode and words in done.stderr and "Traceback" not in done.stderr


def test_a_new_optimiser_goes_on_with_the_environments(train, trained, tmp_path):
    for file in trained.iterdir():
        shutil.copy(file, tmp_path)
    done = train("--max-update", 4, "--save-dir", tmp_path, "--reset-optimizer", optimizer=SGD)
    assert len(losses(done)) == 4 and "new episodes begin" not in done.stdout


def test_a_validation_has_environments_of_its_own(train, tmp_path):
    def validated(*options):
        done = train("--max-epoch", 1, "--no-save", "--save-dir", tmp_path, *options)
        return re.search(r"valid on 'valid' subset \|.*episodes (\d+)", done.stdout)

    assert validated()[1] == "8" and validated("--batch-size-valid", 2)[1] == "4"


def test_fairseq_validate_takes_the_number_of_environments(run, trained, user_dir):
    def validated(environments):
        command = ["fairseq-validate", "--user-dir", user_dir, "--task", "reinforcement_learning", "--cpu"]
        done = run(*command, "--path", trained / "checkpoint_last.pt", "--batch-size", environments)
        return re.search(r"episodes (\d+)", done.stdout)[1]

    assert [validated(8), validated(2)] == ["8", "4"]


@pytest.mark.parametrize("tool, words", [
    (["head_pruning"], "is no model of --task streaming_language_modeling"),
    (["plot", "attention", "--out", "a.png"], "has no attention that this can draw"),
])  # fmt: skip
def test_tools_of_language_models_refuse_agents(run, trained, tool, words):
    name, *options = tool
    module = f"fairseq_plugins.tools.{name}"
    done = run("python", "-m", module, *options, trained / "checkpoint_last.pt", check=False)
    assert words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("criterion", ["a2c", "ppo"])
def test_two_ranks_are_one_with_twice_the_environments(criterion, run, train, tmp_path):
    def validations(done):
        found = re.findall(r"valid \|.* loss ([^ ]+) .* reward ([^ ]+) ", done.stdout)
        return [*map(float, itertools.chain(*found))]

    def two_ranks(*command):
        return torchrun(run, command)

    options = ("--max-update", 10, "--lr", 0.1, "--test-episodes", 16)
    same = {"criterion": criterion, "optimizer": SGD}
    one = train(*options, "--save-dir", tmp_path / "one", **same)
    two = train(*options, "--batch-size", 4, "--save-dir", tmp_path / "two", runner=two_ranks, **same)
    assert_same_weights(tmp_path / "one", tmp_path / "two", rtol=1e-4, atol=1e-6)
    assert len(validations(one)) == 4 and validations(two) == pytest.approx(validations(one), rel=1e-3)


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


@pytest.mark.parametrize("options, words", [
    ({"environment": "fairseq_plugins/Corridor-v9"}, "--environment fairseq_plugins/Corridor-v9"),
    ({"settings": "length"}, "--environment-settings 'length' cannot be made"),
    ({"more": ["--max-tokens", 100]}, "takes --batch-size"),
    ({"arch": "feedback_lm_tiny"}, "feedback_lm_tiny"),
])  # fmt: skip
def test_wrong_input_is_one_sentence(run, train, options, words, tmp_path):
    def fails(*command):
        return run(*command, check=False)

    more = options.pop("more", [])
    done = train(*more, "--max-update", 1, "--save-dir", tmp_path, runner=fails, **options)
    assert words in done.stderr and "Traceback" not in done.stderr
