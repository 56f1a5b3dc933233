"""Splits of labelled episodes."""

import numpy as np
import pytest

from fairseq_plugins.synthetic.synthetic_stream import KINDS, draw_split

NOTHING = 1


def make(name, seed=1, part="train", episodes=4, length=9):
    kind = KINDS[name]
    index = {symbol: number for number, symbol in enumerate(kind.vocabulary, start=4)}
    return draw_split(kind, index, NOTHING, seed, part, episodes, length)


@pytest.mark.parametrize("name", KINDS)
def test_a_split_is_whole_episodes(name):
    symbols, labels, starts = make(name)
    assert symbols.shape == labels.shape and starts[0] == 0 and starts[-1] == len(symbols) and len(starts) == 5
    assert symbols.min() >= 4 and set(labels) - {NOTHING} and (labels[starts[:-1]] == NOTHING).all()


def test_a_split_is_the_same_for_the_same_seed_and_name():
    first = make("copy")
    assert all(np.array_equal(*pair) for pair in zip(first, make("copy"), strict=True))
    assert not np.array_equal(first[0], make("copy", seed=2)[0])
    assert not np.array_equal(first[0], make("copy", part="valid")[0])
