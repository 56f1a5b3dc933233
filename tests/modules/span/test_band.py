"""Distances and absolute positions."""

import torch

from fairseq_plugins.modules.span.band import band, into_band


def test_row_t_of_the_band_begins_at_column_t():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    inside = into_band(x, 0.0)
    assert inside.tolist() == [[1, 2, 0, 0], [0, 3, 4, 0], [0, 0, 5, 6]]
    assert torch.equal(band(inside), x)


def test_the_band_is_a_view():
    x = torch.zeros(2, 3, 4)
    band(x).fill_(1)
    assert x.sum() == 2 * 3 * 2
    assert torch.equal(x[1], torch.tensor([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]))


def test_gradients_of_both_directions():
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: into_band(x, -1.0), x)
    assert torch.autograd.gradcheck(band, x)
