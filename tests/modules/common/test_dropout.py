"""Dropout with masks from random bits."""

import pytest
import torch

from fairseq_plugins.modules.common.dropout import Dropout, StepDropout, draw_signs, kept_scale


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_so_many_elements_are_dropped_and_the_rest_scaled(rate):
    torch.manual_seed(0)
    y = Dropout(rate)(torch.ones(999, 1001))
    kept = y[y != 0]
    assert kept.numel() / y.numel() == pytest.approx(1 - rate, abs=0.002)
    assert kept.unique().tolist() == pytest.approx([1 / (1 - rate)], rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_minus_marks_so_many_elements(dtype):
    torch.manual_seed(0)
    x = torch.full((999, 1001), 0.5, dtype=dtype)
    assert draw_signs(x, 0.3) is x and x.abs().eq(0.5).all()
    assert x.signbit().double().mean() == pytest.approx(0.3, abs=0.002)


def test_neighbours_are_dropped_independently():
    """Four neighbours share a random number; they must not share a fate."""
    torch.manual_seed(0)
    dropped = Dropout(0.5)(torch.ones(4, 50000).t().contiguous()) == 0
    joint = torch.corrcoef(dropped.double().t())
    assert torch.allclose(joint, torch.eye(4).double(), atol=0.02)


def test_gradients_go_through_kept_elements():
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


def test_masks_of_steps_are_drawn_at_once_and_again_when_they_are_used_up():
    torch.manual_seed(0)
    masks, states = StepDropout(0.5, steps=3), []
    for _ in range(4):
        assert masks.mask(torch.ones(50, 20)).shape == (50, 20)
        states.append(torch.get_rng_state())
    assert torch.equal(states[0], states[2]) and not torch.equal(states[2], states[3])


def test_masks_of_steps_differ_and_drop_so_many():
    torch.manual_seed(0)
    masks = StepDropout(0.3, steps=2)
    one, other = (masks.mask(torch.ones(999, 101)) for _ in range(2))
    assert not torch.equal(one, other)
    for mask in (one, other):
        assert mask.float().mean() * kept_scale(0.3, mask.device) == pytest.approx(1, abs=0.01)


def test_masks_may_grow():
    masks = StepDropout(0.5, steps=4, grows=True)
    assert [masks.mask(torch.ones(2, 3 + t)).shape[-1] for t in range(9)] == list(range(3, 12))
