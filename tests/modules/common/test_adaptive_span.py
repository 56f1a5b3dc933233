"""Spans that heads learn."""

import pytest
import torch

from fairseq_plugins.modules.common.adaptive_span import AdaptiveSpan


def make(ratios, max_span=10, ramp=2, trim_step=1):
    span = AdaptiveSpan(len(ratios), max_span, ramp, trim_step=trim_step)
    span.span_ratio.data = torch.tensor(ratios)
    return span


def test_mask_falls_from_one_to_zero_over_the_ramp():
    span = AdaptiveSpan(1, max_span=6, ramp=4, initial=0.5)  # z = 3
    expected = [0.5, 0.75, 1, 1, 1, 1]  # (z + R - x) / R for x = 5, 4, ..., 0
    assert span.mask()[0].tolist() == expected


def test_masked_weights_sum_to_one():
    weights = torch.rand(3, 2, 4, 10).softmax(-1)
    limited = make([0.1, 0.6])(weights)
    assert torch.allclose(limited.sum(-1), torch.ones(3, 2, 4), atol=1e-6)
    assert (limited[:, 0, :, :7] == 0).all() and (limited[:, 0, :, 8:] > 0).all()


def test_weights_of_a_trimmed_span_use_the_nearest_part_of_the_mask():
    span = make([0.2, 0.3])
    weights = torch.rand(3, 2, 4, 10)
    trimmed = weights[..., span.trim_length() :]
    whole = span(weights)
    assert torch.allclose(span(trimmed), whole[..., span.trim_length() :])
    assert (whole[..., : span.trim_length()] == 0).all()


@pytest.mark.parametrize(
    "ratios, trim_step, trimmed",
    [([0.0, 0.25], 1, 5), ([0.0, 0.25], 2, 4), ([1.0, 0.0], 1, 0), ([-1.0, -1.0], 1, 9)],
)
def test_positions_beyond_the_widest_head_and_its_ramp_are_trimmed(ratios, trim_step, trimmed):
    assert make(ratios, trim_step=trim_step).trim_length() == trimmed


def test_loss_is_the_mean_span_times_the_coefficient():
    span = make([0.2, 0.6])
    span.loss(0.5).backward()
    assert span.loss(0.5).item() == pytest.approx(0.5 * 10 * 0.4)
    assert span.span_ratio.grad.tolist() == pytest.approx([2.5, 2.5])


def test_clamp_brings_ratios_back():
    span = make([-0.5, 0.4, 1.5])
    span.clamp_()
    assert span.span_ratio.tolist() == pytest.approx([0, 0.4, 1])
    assert span.current().tolist() == pytest.approx([0, 4, 10])


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
def test_nothing_in_sight_is_no_division_by_zero(kind):
    """As when all weight lies beyond a head's span."""
    weights = torch.zeros(1, 2, 1, 8, dtype=kind)
    weights[..., 0] = 1
    assert torch.equal(AdaptiveSpan(2, 8, ramp=2).to(kind)(weights), torch.zeros_like(weights))
