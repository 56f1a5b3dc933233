"""Transformer-XL's positions: the distances that a query sees, and the tokens that it does not see."""

import math

import pytest
import torch

from fairseq_plugins.modules.common.sinusoids import sinusoids
from fairseq_plugins.modules.transformer_xl import ages
from fairseq_plugins.modules.transformer_xl.ages import Run
from fairseq_plugins.modules.transformer_xl.position import SinusoidalPosition

M = 3
SEEN = {
    "memory": ages.followed_by(ages.just_before(4), ages.of_block(M)),
    "retained memory": ages.followed_by(ages.after(ages.just_before(4), 5), ages.of_block(M)),
    "memory with a gap": (Run(2, 9), Run(3, 2), Run(M, 1 - M)),
}


def test_sines_first_then_cosines():
    one, far = sinusoids(torch.tensor([1, 100]), 4, torch.float64)
    assert one.tolist() == pytest.approx([math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01)])
    assert far.tolist() == pytest.approx([math.sin(100), math.sin(1), math.cos(100), math.cos(1)])


def test_the_last_wavelength_of_tensor2tensor_is_ten_thousand_times_the_first():
    (one,) = sinusoids(torch.tensor([1]), 6, torch.float64, "tensor2tensor")
    assert one[:3].tolist() == pytest.approx([math.sin(1), math.sin(0.01), math.sin(0.0001)])
    assert sinusoids(torch.tensor([3]), 2, torch.float64, "tensor2tensor")[0, 0] == pytest.approx(math.sin(3))


def test_frequencies_in_float32_are_the_public_codes():
    """Their buffer, to the bit, in a model in float64."""
    theirs = 1 / (10000 ** (torch.arange(0.0, 14, 2.0) / 14))
    far = sinusoids(torch.tensor([3800]), 14, torch.float64, float32_frequencies=True)
    assert torch.equal(far[0, :7], (3800 * theirs.double()).sin())


def test_distances_above_the_clamp_count_as_it():
    position = SinusoidalPosition(4, "pairwise", clamp=2, limit=None, dropout=0.0)
    embeddings = position.embed(torch.tensor([5, 3, 2, 1]), torch.zeros(1))
    assert torch.equal(embeddings, sinusoids(torch.tensor([2, 2, 2, 1]), 4, torch.float32))


@pytest.mark.parametrize("limit, hidden", [(None, [[0, 0, 0, 1], [0, 0, 0, 0]]), (2, [[1, 0, 0, 1], [1, 1, 0, 0]])])
def test_later_tokens_and_those_beyond_the_limit_are_hidden(limit, hidden):
    position = SinusoidalPosition(4, "pairwise", clamp=-1, limit=limit, dropout=0.0)
    layout = position(ages.followed_by(ages.just_before(2), ages.of_block(2)), torch.zeros(1, 2, 4))
    assert layout.hidden.int().tolist() == hidden


def test_a_limit_counts_tokens_however_old_they_are():
    position = SinusoidalPosition(4, "pairwise", clamp=-1, limit=M, dropout=0.0)
    for seen in ("memory", "retained memory", "memory with a gap"):
        layout = position(SEEN[seen], torch.zeros(1, M, 4))
        assert layout.hidden.logical_not().sum(1).tolist() == [M] * M


@pytest.mark.parametrize("dim, scheme, words", [(5, "pairwise", "width 5 is odd"), (4, "best", "'best' is not one of")])
def test_wrong_arguments_are_refused(dim, scheme, words):
    with pytest.raises(ValueError, match=words):
        SinusoidalPosition(dim, scheme, clamp=-1, limit=None, dropout=0.0)
