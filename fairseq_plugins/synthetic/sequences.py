"""Sequences to be copied, reversed or counted, symbol by symbol (Feedback paper, section 4.1.1).

    copy      start 3 1 4 = 3 1         labels at "=" and after it: 3 1 4
    reverse   start 3 1 4 = 4 1                                     4 1 3
    counting  start A A A = B B B                                   B B B end

The answer is read as it is said, so a whole answer is right exactly if greedy decoding gives it. The paper tells
neither this form nor how lengths are drawn: ours are the given length for digits, and uniform up to it for counting.
"""

from collections.abc import Callable
from random import Random

from fairseq_plugins.synthetic.episodes import Episode, Kind

DIGITS = tuple("0123456789")


def asked(question: list[str], answer: list[str]) -> Episode:
    symbols = ["start", *question, "=", *answer[:-1]]
    return Episode(symbols, [None] * (len(symbols) - len(answer)) + answer)


def digits(answer: Callable[[list[str]], list[str]]) -> Kind:
    """As many digits as the length says."""

    def draw_digits(draw: Random, length: int) -> Episode:
        question = draw.choices(DIGITS, k=length)
        return asked(question, answer(question))

    return Kind(draw_digits, (*DIGITS, "start", "="), 40, 400)


def count(draw: Random, length: int) -> Episode:
    number = draw.randint(1, length)
    return asked(["A"] * number, ["B"] * number + ["end"])


COPY = digits(list)
REVERSE = digits(lambda question: question[::-1])


def counting(length: int) -> Kind:
    """Up to so many, in training and in the test."""
    return Kind(count, ("A", "B", "start", "=", "end"), length, length)
