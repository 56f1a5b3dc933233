"""Environments of agents: which of gymnasium's are refused, and that ranks and trials share none."""

import json
import random

import gymnasium
import numpy as np
import pytest
from fairseq.logging import metrics

from fairseq_plugins.agents import wrappers
from fairseq_plugins.agents.actor import Actor, described, make_environments
from fairseq_plugins.agents.criterions.a2c import A2CCriterion, episode_logs
from fairseq_plugins.errors import UserError


@pytest.mark.parametrize("name, settings, words", [
    ("fairseq_plugins/Corridor-v0", "[1]", r"settings '\[1\]' cannot be made: the settings are no JSON object"),
    ("fairseq_plugins/Corridor-v0", '{"length": 5.5}', "length 5.5 is not a whole number from 2 to 1000000"),
    ("fairseq_plugins/Corridor-v0", '{"size": 5}', "cannot be made: .* unexpected keyword argument 'size'"),
    ("FrozenLake-v1", '{"map_name": "none"}', "cannot be made: 'none'"),
    ("FrozenLake-v1", '{"desc": 3}', "cannot be made: "),
    ("ALE/Pong-v5", "", "the package ale_py registers it: --environment ale_py:ALE/Pong-v5; pip install ale_py"),
    ("ale_py:ALE/Pong-v5", "", "No module named 'ale_py'.*; pip install ale_py"),
])  # fmt: skip
def test_wrong_environments(name, settings, words):
    with pytest.raises(UserError, match=words):
        make_environments(name, 2, settings)


def test_no_package_is_named_that_is_there():
    pytest.importorskip("minigrid")
    for name, settings in ("MiniGrid-MemoryS7-v0", '{"wide": 5}'), ("MiniGrid-None-v0", ""):
        with pytest.raises(UserError) as error:
            make_environments(name, 1, settings)
        assert "cannot be made: " in str(error.value) and "package" not in str(error.value)


@pytest.mark.parametrize("name", ["CartPole-v1", "Blackjack-v1", "FrozenLake-v1", "fairseq_plugins/WaterMaze-v1"])
def test_a_limit_of_steps_is_a_setting(name):
    environments = make_environments(name, 2, json.dumps({"max_episode_steps": 3}))
    environments.reset(seed=1)
    for _ in range(3):
        *_, terminated, truncated, _ = environments.step([0, 0])
        if (terminated | truncated).all():
            return
    raise AssertionError("no episode ended")


@pytest.mark.parametrize("name, settings", [("CliffWalking-v1", ""), ("CartPole-v1", '{"max_episode_steps": -1}')])
def test_a_guard_cuts_off_episodes_without_a_limit(name, settings, monkeypatch, caplog):
    environments = make_environments(name, 2, settings)
    assert "limit of steps unknown, cut off after 10000" in described(environments)
    environments.reset(seed=1)
    monkeypatch.setattr(wrappers, "LONGEST", 3)
    cut = [environments.step([0, 1])[3].any() for _ in range(6)]
    assert cut == [False, False, True] * 2
    assert f"--environment {name}: an episode was cut off after 3 steps; give it a limit" in caplog.messages[0]


class Shuffled(gymnasium.Env):
    """Draws from the generators of Python and numpy, as some of POPGym do."""

    observation_space, action_space = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.array([random.random(), np.random.random()], np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, True, False, {}


class Noisy(Shuffled):
    """Draws in its steps."""

    def step(self, action):
        return np.random.random(2).astype(np.float32), 0.0, False, False, {}


class Board(gymnasium.Env):
    """Counts in one array that it returns again and again; its info has what cannot be joined."""

    observation_space, action_space = gymnasium.spaces.Box(0, 9, (2,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.board = getattr(self, "board", np.zeros(2, np.float32))
        self.board[:] = 0
        return self.board, {"moves": np.arange((seed or 1) % 5)}

    def step(self, action):
        self.board += 1
        return self.board, 0.0, False, bool(self.board[0] == 3), {"winner": None if action else 1}


@pytest.fixture
def made(monkeypatch):
    """Makes copies of an environment of a class."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))

    def make(kind, copies):
        gymnasium.register("Made-v0", kind)
        return make_environments("Made-v0", copies)

    return make


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.parametrize("kind", [Shuffled, Noisy])
def test_episodes_do_not_depend_on_the_environments_beside(kind, made):
    def first_of(copies):
        actor = Actor(made(kind, copies), seed=1)
        return [(actor.step(np.zeros(copies, int)), actor.seen.numbers[0].tolist())[1] for _ in range(3)]

    before = random.getstate(), np.random.get_state()[1].tolist()
    assert first_of(3) == first_of(1) and len(set(map(tuple, first_of(1)))) == 3
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_a_step_that_draws_from_pythons_generator_is_named(made, monkeypatch, caplog):
    drawn = lambda self, action: (np.full(2, random.random(), np.float32), 0.0, False, False, {})  # noqa: E731
    monkeypatch.setattr(Noisy, "step", drawn)
    actor = Actor(made(Noisy, 2), seed=1)
    for _ in range(2):
        actor.step(np.zeros(2, int))
    assert len(caplog.messages) == 1 and "Made-v0 draws from Python's random in step()" in caplog.messages[0]


def test_last_states_are_copies_and_other_info_is_left_out(made):
    actor = Actor(made(Board, 2), seed=1, bootstrap=True)
    for _ in range(3):
        actor.step(np.array([0, 1]))
    ((rows, last),) = actor.cut_off
    assert rows.tolist() == [0, 1] and actor.seen.numbers.max() < last.numbers.min()


def test_a_resumed_training_begins_other_episodes(made):
    actor = Actor(made(Shuffled, 2), seed=1)
    first = actor.seen.numbers.tolist()
    actor.begin_episodes(7)
    later = actor.seen.numbers.tolist()
    actor.begin_episodes()
    assert later != first == actor.seen.numbers.tolist()


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_success_is_told_where_the_environment_knows_it(made, monkeypatch):
    def step(self, action):
        return np.zeros(2, np.float32), 0.0, True, False, {"is_success": bool(action == 1)} if told else {}

    monkeypatch.setattr(Shuffled, "step", step)
    found = []
    for told in True, False:
        actor = Actor(made(Shuffled, 3), seed=1)
        actor.step(np.array([0, 1, 1]))
        episodes = actor.take_finished()
        found.append([episode.success for episode in episodes])
        with metrics.aggregate() as logged:
            of_blocks = [episode_logs(episodes[:1]), episode_logs(episodes[1:])]
            A2CCriterion.reduce_metrics([{"sample_size": 0, **logs} for logs in of_blocks])
        assert ("success" in logged) == told and logged["length"].avg == 1
        assert not told or logged["success"].avg == pytest.approx(2 / 3)
    assert found[0] == [0, 1, 1] and np.isnan(found[1]).all()


def episodes_of(seed, **ranks):
    """The mazes of 16 agents."""
    actor = Actor(make_environments("fairseq_plugins/MazeNavigation-v0", 16), seed, **ranks)
    return {tuple(row) for row in actor.environments.world.cells.reshape(16, -1).tolist()}


def test_trials_and_ranks_share_no_environments():
    first, second = episodes_of(1, total=32), episodes_of(1, first=16, total=32)
    assert len(first | second) == 32 and first == episodes_of(1)
    assert not first & episodes_of(2)
