"""Figures of single lines, from their losses and lengths."""

from argparse import Namespace

import numpy as np
import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.score_lines import Lines, figures, padded

LINES = Lines(np.array([2.5, 7.0, 41.0]), np.array([0.5, 1.0, 1.0]), np.array([2, 5, 21]))
ARGS = Namespace(longest=300, batch=64, batches=3, seed=1)


def test_every_line_counts_in_the_loss_of_a_token():
    found = figures(LINES, Namespace(**{**vars(ARGS), "longest": 5}))
    assert (found["lines"], found["tokens"], found["left_out"]) == (3, 28, 1)
    assert found["nats"] == pytest.approx(50.5 / 28)
    assert found["perplexity"] == pytest.approx(np.exp(50.5 / 28))


def test_padding_counts_in_the_papers_figure_and_longer_lines_and_first_tokens_do_not():
    assert padded(LINES, longest=300, batch=64, batches=3, seed=1) == pytest.approx(48 / (3 * 20))
    assert padded(LINES, longest=5, batch=64, batches=3, seed=1) == pytest.approx(8 / (2 * 4))
    assert padded(LINES, longest=5, batch=1, batches=400, seed=1) == pytest.approx((2 + 1.5) / 2, abs=0.05)


def test_the_same_seed_draws_the_same_lines():
    one, same, other = (padded(LINES, 300, 2, 5, seed) for seed in (1, 1, 2))
    assert one == same != other


def test_no_line_short_enough_is_named():
    with pytest.raises(UserError, match="no line has --longest 0 tokens or fewer"):
        padded(LINES, longest=0, batch=2, batches=1, seed=1)
