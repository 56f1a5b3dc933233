"""Stochastic cross-head attention: when heads are crossed, and how."""

import pytest
import torch

from fairseq_plugins.modules.common.cross_head import CrossHead

H = 4


def plus_head(*queries):
    """The keys of a head are 100 times its number."""
    return sum(queries) + 100 * torch.arange(H).view(H, 1)


def test_permutations_are_drawn_with_probability_p():
    torch.manual_seed(1)
    cross_head = CrossHead(H, p=0.25)
    drawn = [cross_head.draw() for _ in range(400)]
    permutations = [tuple(order.tolist()) for order in drawn if order is not None]
    assert 70 < len(permutations) < 130
    assert all(sorted(order) == list(range(H)) for order in permutations)
    assert len(set(permutations)) > 15  # of 24


@pytest.mark.parametrize("p, training", [(0.0, True), (1.0, False)])
def test_without_crossing_no_random_number_is_drawn(p, training):
    cross_head = CrossHead(H, p).train(training)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    assert cross_head(plus_head, torch.zeros(H, 1)).flatten().tolist() == [0, 100, 200, 300]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_probability_out_of_range_is_refused():
    with pytest.raises(ValueError, match="cross-head probability 1.5 is not in"):
        CrossHead(H, 1.5)
