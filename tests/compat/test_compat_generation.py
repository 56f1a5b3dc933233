"""Each patch of fairseq_plugins.compat.generation, against fairseq's own function, which shows the fault.

A patched function keeps fairseq's as ``__wrapped__``. What only shows in whole commands is in cli/.
"""

import math

import pytest
import torch
from fairseq import search
from fairseq.data import Dictionary

import fairseq_plugins  # noqa: F401  (applies the patches)


def test_a_forced_token_that_is_too_unlikely_to_draw_is_drawn():
    """As of a prompt, at a low temperature; and a likely one is drawn as before."""
    dictionary = Dictionary()
    lprobs = torch.full((2, 1, len(dictionary)), -math.inf)
    lprobs[0, 0, 3], lprobs[1, 0, 2] = -500.0, -0.1
    scores, drawn, _ = search.Sampling(dictionary, sampling_topk=2).step(0, lprobs, None)
    assert drawn.flatten().tolist() == [3, 2]
    assert scores[1].item() == pytest.approx(-0.1)


def test_fairseq_cannot_draw_it():
    lprobs = torch.full((1, 1, 6), -math.inf)
    lprobs[0, 0, 3] = -500.0
    with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
        search.Sampling.step.__wrapped__(search.Sampling(Dictionary(), sampling_topk=2), 0, lprobs, None)
