import json
import re

import pytest

pytest.importorskip("gymnasium")

WATCH = ("python", "-m", "fairseq_plugins.tools.watch")


@pytest.fixture(scope="module")
def agent(run, user_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    flags = (
        f"fairseq-train --user-dir {user_dir} --task reinforcement_learning --criterion a2c --arch feedback_agent_tiny"
        " --bptt 6 --batch-size 4 --updates-per-epoch 2 --test-episodes 4 --optimizer rmsprop --lr 0.01 --cpu"
        " --max-update 2 --environment fairseq_plugins/Corridor-v0"
    )
    run(*flags.split(), "--environment-settings", '{"length": 4}', "--save-dir", folder)
    return folder / "checkpoint_last.pt"


def mean_reward(done) -> float:
    return float(re.search(r"mean reward of \d+ episodes: ([\d.]+)", done.stdout)[1])


def test_an_episode_is_drawn_and_printed(run, agent, tmp_path):
    run(*WATCH, agent, "--out", tmp_path / "episode.gif")
    image = pytest.importorskip("PIL.Image").open(tmp_path / "episode.gif")
    assert image.size == (4 * 16, 3 * 16) and 1 <= image.n_frames <= 8
    said = run(*WATCH, agent, "--text").stdout
    assert said.startswith("###") and ">" in said and "mean reward of 1 episodes" in said


def test_the_best_and_the_random_agent(run, tmp_path):
    options = ("--environment", "fairseq_plugins/Corridor-v0", "--environment-settings", '{"length": 4}')
    best = run(*WATCH, "--agent", "best", *options, "--episodes", 100, "--json", tmp_path / "best.json")
    chance = run(*WATCH, "--agent", "random", *options, "--episodes", 100)
    assert mean_reward(best) == 1 and 0.05 < mean_reward(chance) < 0.5
    assert json.loads((tmp_path / "best.json").read_text()) == {"reward": 1, "episodes": 100, "standard_error": 0}
    assert "100 episodes" in best.stdout


@pytest.mark.parametrize(
    "options, words",
    [
        ((), "give a checkpoint, or --agent best"),
        (("--agent", "best"), "needs --environment"),
        (("--agent", "best", "--environment", "CartPole-v1"), "nobody knows the best actions in CartPole-v1"),
        (("nothing.pt",), "nothing.pt does not exist"),
    ],
)
def test_wrong_input_is_one_sentence(run, options, words):
    done = run(*WATCH, *options, check=False)
    assert done.returncode and words in done.stderr and "Traceback" not in done.stderr
