"""Copy, reverse and counting: questions, and the answers symbol by symbol."""

from collections import Counter
from random import Random

import pytest

from fairseq_plugins.synthetic.synthetic_stream import KINDS


def question_and_answer(episode):
    symbols, labels = episode
    equals = symbols.index("=")
    assert symbols[0] == "start" and len(symbols) == len(labels)
    assert labels[:equals] == [None] * equals and None not in labels[equals:]
    assert symbols[equals + 1 :] == labels[equals:-1]  # the answer so far is an input
    return symbols[1:equals], labels[equals:]


@pytest.mark.parametrize("name, order", [("copy", 1), ("reverse", -1)])
def test_digits(name, order):
    for _ in range(20):
        question, answer = question_and_answer(KINDS[name].draw(Random(1), 40))
        assert len(question) == 40 and set(question) <= set("0123456789")
        assert answer == question[::order]


ANSWERS = {"copy-varied": list, "reverse-varied": lambda q: q[::-1], "counting-50": lambda q: ["B"] * len(q) + ["end"]}


@pytest.mark.parametrize("name", ANSWERS)
def test_sequences_up_to_a_length(name):
    random, lengths = Random(1), Counter()
    for _ in range(600):
        question, answer = question_and_answer(KINDS[name].draw(random, 5))
        assert answer == ANSWERS[name](question) and ("A" in question) == name.startswith("counting")
        lengths[len(question)] += 1
    assert lengths.keys() == {1, 2, 3, 4, 5} and min(lengths.values()) > 80
