"""Sinusoids of other codes, and positions that cannot be."""

import math

import pytest
import torch

from fairseq_plugins.modules.common.sinusoids import sinusoids
from fairseq_plugins.modules.transformer_xl.position import SinusoidalPosition


def test_the_last_wavelength_of_tensor2tensor_is_ten_thousand_times_the_first():
    (one,) = sinusoids(torch.tensor([1]), 6, torch.float64, "tensor2tensor")
    assert one[:3].tolist() == pytest.approx([math.sin(1), math.sin(0.01), math.sin(0.0001)])
    assert sinusoids(torch.tensor([3]), 2, torch.float64, "tensor2tensor")[0, 0] == pytest.approx(math.sin(3))


def test_frequencies_in_float32_are_the_public_codes():
    """Their buffer, to the bit, in a model in float64."""
    theirs = 1 / (10000 ** (torch.arange(0.0, 14, 2.0) / 14))
    far = sinusoids(torch.tensor([3800]), 14, torch.float64, float32_frequencies=True)
    assert torch.equal(far[0, :7], (3800 * theirs.double()).sin())


@pytest.mark.parametrize("dim, scheme, words", [(5, "pairwise", "width 5 is odd"), (4, "best", "'best' is not one of")])
def test_wrong_arguments_are_refused(dim, scheme, words):
    with pytest.raises(ValueError, match=words):
        SinusoidalPosition(dim, scheme, clamp=-1, limit=None, dropout=0.0)
