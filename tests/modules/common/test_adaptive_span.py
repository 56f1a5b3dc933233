"""Spans that heads learn."""

import pytest
import torch

from fairseq_plugins.modules.common.adaptive_span import AdaptiveSpan


def make(ratios, trim_step=1):
    span = AdaptiveSpan(len(ratios), max_span=10, ramp=2, trim_step=trim_step)
    span.span_ratio.data = torch.tensor(ratios)
    return span


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
    assert make(ratios, trim_step).trim_length() == trimmed


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
def test_nothing_in_sight_is_no_division_by_zero(kind):
    """As when all weight lies beyond a head's span."""
    weights = torch.zeros(1, 2, 1, 8, dtype=kind)
    weights[..., 0] = 1
    assert torch.equal(AdaptiveSpan(2, 8, ramp=2).to(kind)(weights), torch.zeros_like(weights))
