"""Environments of trials and ranks."""

import pytest

pytest.importorskip("gymnasium")

from fairseq_plugins.agents.actor import Actor, make_environments  # noqa: E402


def episodes_of(seed, **ranks):
    """What 16 agents see at first in mazes."""
    actor = Actor(make_environments("fairseq_plugins/MazeNavigation-v0", 16), seed, **ranks)
    return {tuple(row) for row in actor.environments.world.cells.reshape(16, -1).tolist()}


def test_trials_share_no_environments():
    assert not episodes_of(1) & episodes_of(2)


def test_ranks_share_no_environments():
    first, second = episodes_of(1, total=32), episodes_of(1, first=16, total=32)
    assert len(first | second) == 32
    assert first == episodes_of(1)
