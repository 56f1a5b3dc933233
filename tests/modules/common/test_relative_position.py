"""Learned relative positions."""

import torch

from fairseq_plugins.modules.common.relative_position import RelativePosition


def test_scores_are_products_with_the_vector_of_each_distance():
    torch.manual_seed(0)
    position, query = RelativePosition(4, 6), torch.randn(2, 3, 4)
    scores = position.scores(query)
    assert scores.shape == (2, 3, 6)
    assert torch.allclose(scores[1, 2, 5], query[1, 2] @ position.weight[:, 5])


def test_a_shorter_span_keeps_the_nearest():
    position, query = RelativePosition(4, 6), torch.randn(2, 4)
    assert torch.allclose(position.scores(query, 2), position.scores(query)[:, -2:])
