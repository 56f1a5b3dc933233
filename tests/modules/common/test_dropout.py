"""Dropout with masks from random bits."""

import pytest
import torch

from fairseq_plugins.modules.common.dropout import Dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_so_many_elements_are_dropped_and_the_rest_scaled(rate):
    torch.manual_seed(0)
    y = Dropout(rate)(torch.ones(999, 1001))
    kept = y[y != 0]
    assert kept.numel() / y.numel() == pytest.approx(1 - rate, abs=0.002)
    assert kept.unique().tolist() == pytest.approx([1 / (1 - rate)], rel=1e-4)


def test_neighbours_are_dropped_independently():
    """Four neighbours share a random number; they must not share a fate."""
    torch.manual_seed(0)
    dropped = Dropout(0.5)(torch.ones(4, 50000).t().contiguous()) == 0
    joint = torch.corrcoef(dropped.double().t())
    assert torch.allclose(joint, torch.eye(4).double(), atol=0.02)


def test_gradients_go_through_what_was_kept():
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    assert torch.allclose(x.grad, y / x)


def test_the_generator_decides():
    dropout, x = Dropout(0.3), torch.ones(3, 5)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(dropout(x))
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("dropout", [Dropout(0.0), Dropout(0.5).eval()])
def test_nothing_happens_at_evaluation_or_without_a_rate(dropout):
    x = torch.randn(3)
    assert dropout(x) is x


def test_everything_may_be_dropped():
    assert not Dropout(1.0)(torch.ones(3, 5)).any()
