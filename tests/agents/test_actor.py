"""Environments of agents: which of gymnasium's are refused, and that ranks and trials share none."""

import json

import pytest

from fairseq_plugins.agents.actor import Actor, make_environments
from fairseq_plugins.errors import UserError


@pytest.mark.parametrize("name, settings, words", [
    ("fairseq_plugins/Corridor-v0", "[1]", r"settings '\[1\]' cannot be made: the settings are no JSON object"),
    ("fairseq_plugins/Corridor-v0", '{"length": 5.5}', "length 5.5 is not a whole number from 2 to 1000000"),
    ("fairseq_plugins/Corridor-v0", '{"size": 5}', "cannot be made: .* unexpected keyword argument 'size'"),
    ("FrozenLake-v1", '{"map_name": "none"}', "cannot be made: 'none'"),
    ("FrozenLake-v1", '{"desc": 3}', "cannot be made: "),
    ("Pendulum-v1", "", "agents have a fixed number of actions"),
    ("Blackjack-v1", "", "has no limit of steps, .* for example --environment-settings .*max_episode_steps"),
    ("CartPole-v1", '{"max_episode_steps": -1}', "has no limit of steps"),
])  # fmt: skip
def test_wrong_environments(name, settings, words):
    with pytest.raises(UserError, match=words):
        make_environments(name, 2, settings)


@pytest.mark.parametrize("name", ["CartPole-v1", "Blackjack-v1", "FrozenLake-v1", "fairseq_plugins/WaterMaze-v1"])
def test_a_limit_of_steps_is_a_setting(name):
    environments = make_environments(name, 2, json.dumps({"max_episode_steps": 3}))
    environments.reset(seed=1)
    for _ in range(3):
        *_, terminated, truncated, _ = environments.step([0, 0])
        if (terminated | truncated).all():
            return
    raise AssertionError("no episode ended")


def episodes_of(seed, **ranks):
    """The mazes of 16 agents."""
    actor = Actor(make_environments("fairseq_plugins/MazeNavigation-v0", 16), seed, **ranks)
    return {tuple(row) for row in actor.environments.world.cells.reshape(16, -1).tolist()}


def test_trials_and_ranks_share_no_environments():
    first, second = episodes_of(1, total=32), episodes_of(1, first=16, total=32)
    assert len(first | second) == 32 and first == episodes_of(1)
    assert not first & episodes_of(2)
