import json
import re

import pytest

gymnasium = pytest.importorskip("gymnasium")

from fairseq_plugins.errors import UserError  # noqa: E402
from fairseq_plugins.tools import watch  # noqa: E402

RANDOM = ("--agent", "random", "--environment")
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


@pytest.mark.parametrize("environment", ["fairseq_plugins/Corridor-v0", "FrozenLake-v1"])
def test_an_episode_is_shown_to_its_end(run, environment):
    """Whether the environments are ours or gymnasium's."""
    said = run(*WATCH, *RANDOM, environment, "--environment-settings", '{"max_episode_steps": 2}', "--text").stdout
    assert len(re.split(r"\n\n(?=###|  \()", said)) == 3  # before, between and after two steps


def test_the_last_state_is_drawn(run, tmp_path):
    options = ("--environment", "fairseq_plugins/WaterMaze-v1", "--environment-settings", '{"size": 2, "max_steps": 1}')
    run(*WATCH, "--agent", "best", *options, "--episodes", 3, "--out", tmp_path / "a.gif")
    assert pytest.importorskip("PIL.Image").open(tmp_path / "a.gif").n_frames == 2


def test_other_observations_than_in_training_are_one_sentence(run, agent):
    for environment, words in {
        "fairseq_plugins/MazeNavigation-v0": f"has other observations (whole numbers of {[10] * 9 + [8]} values and 0"
        " other numbers) than the agent was trained with (whole numbers of [3, 3, 3] values",
        "CartPole-v1": "has 2 actions, but the agent was trained with 3",
    }.items():
        done = run(*WATCH, agent, "--environment", environment, check=False)
        assert done.returncode and words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("error", [gymnasium.error.DependencyNotInstalled("pygame is\nmissing"), RuntimeError()])
def test_pictures_that_fail_are_one_sentence(monkeypatch, main, error):
    def render(self):
        raise error

    monkeypatch.setattr("gymnasium.envs.toy_text.frozen_lake.FrozenLakeEnv.render", render)
    said = " ".join(str(error).split()) or "RuntimeError"
    with pytest.raises(UserError, match=f"--environment FrozenLake-v1 cannot be drawn: {said}"):
        main(watch, *RANDOM, "FrozenLake-v1", "--text")


def test_a_missing_pillow_is_one_sentence(monkeypatch, main, tmp_path):
    monkeypatch.setattr(watch, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="--out needs Pillow: pip install pillow"):
        main(watch, *RANDOM, "FrozenLake-v1", "--out", tmp_path / "a.gif")


def test_environments_are_closed(monkeypatch, main):
    closed = []
    monkeypatch.setattr("gymnasium.envs.toy_text.frozen_lake.FrozenLakeEnv.close", lambda self: closed.append(self))
    main(watch, *RANDOM, "FrozenLake-v1", "--episodes", 3)
    assert len(closed) == 3


def test_an_environment_that_cannot_be_drawn_is_played(main, monkeypatch, capsys):
    """As those of POPGym it has no argument ``render_mode``."""

    class Blind(gymnasium.envs.toy_text.frozen_lake.FrozenLakeEnv):
        def __init__(self):
            super().__init__()

    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Blind-v0", Blind)
    main(watch, *RANDOM, "Blind-v0", "--episodes", 3)
    assert "mean reward of 3 episodes" in capsys.readouterr().out


def test_the_best_and_the_random_agent(run, tmp_path):
    options = ("--environment", "fairseq_plugins/Corridor-v0", "--environment-settings", '{"length": 4}')
    best = run(*WATCH, "--agent", "best", *options, "--episodes", 100, "--json", tmp_path / "best.json")
    chance = run(*WATCH, "--agent", "random", *options, "--episodes", 100)
    assert mean_reward(best) == 1 and 0.05 < mean_reward(chance) < 0.5
    assert json.loads((tmp_path / "best.json").read_text()) == {"reward": 1, "episodes": 100, "standard_error": 0}
    assert "100 episodes" in best.stdout


@pytest.mark.parametrize("options, words", [
    ((), "give a checkpoint, or --agent best"),
    (("--agent", "best"), "needs --environment"),
    (("--agent", "best", "--environment", "CartPole-v1"), "the best actions in CartPole-v1 are not known"),
    (("nothing.pt",), "nothing.pt does not exist"),
    ((*RANDOM, "CartPole-v1", "--text"), "CartPole-v1 has no render mode ansi, which --text needs"),
    ((*RANDOM, "FrozenLake-v1", "--out", "a.png"), "'a.png' is no name of a file that ends in .gif; give one"),
    ((*RANDOM, "FrozenLake-v1", "--out", "/proc/none/a.gif"), "/proc/none/a.gif could not be written"),
])  # fmt: skip
def test_wrong_input_is_one_sentence(run, options, words):
    done = run(*WATCH, *options, check=False)
    assert done.returncode and words in done.stderr and "Traceback" not in done.stderr


def test_pictures_that_no_gif_can_hold(tmp_path):
    numpy = pytest.importorskip("numpy")
    with pytest.raises(UserError, match="--out .*: pictures of 65536 x 1 points are too large for a GIF; use --text"):
        watch.draw([numpy.zeros((1, 65536, 3), dtype="uint8")], tmp_path / "wide.gif")
    assert not list(tmp_path.iterdir())
