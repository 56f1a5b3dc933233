"""benchmarks/agent_speed.py measures agents of the sizes that --size names."""

from argparse import Namespace

import agent_speed
import pytest

WIDTHS = {"maze": 256, "water_maze": 64, "tiny": 32}


@pytest.mark.parametrize("size", WIDTHS)
@pytest.mark.parametrize("kind", ["span_transformer_agent", *agent_speed.ROWS])
def test_agents_have_the_sizes_of_their_names(kind, size):
    training = agent_speed.Training(Namespace(size=size, environments=2, bptt=2, updates=1, device="cpu"), kind)
    assert training.model.policy.in_features == WIDTHS[size]
