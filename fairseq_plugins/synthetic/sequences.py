"""Copy, reverse or count a sequence, symbol by symbol (Feedback paper, section 4.1.1).

    copy      start 3 1 4 = 3 1         labels at "=" and after it: 3 1 4
    reverse   start 3 1 4 = 4 1                                     4 1 3
    counting  start A A A = B B B                                   B B B end

The symbols of the answer are inputs, too, so all labels of an answer are right exactly if greedy decoding gives the
answer. This form is our choice, as the paper does not give one; so are the lengths: the given length for digits, and a
uniform one up to it for counting.
"""

from collections.abc import Callable
from random import Random

from fairseq_plugins.synthetic.episodes import Episode, Kind

DIGITS = tuple("0123456789")


def asked(question: list[str], answer: list[str]) -> Episode:
    symbols = ["start", *question, "=", *answer[:-1]]
    return Episode(symbols, [None] * (len(symbols) - len(answer)) + answer)


def digits(answer: Callable[[list[str]], list[str]]) -> Kind:
    """Sequences of ``length`` digits."""

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
    """Counting up to ``length``, in training and in the test."""
    return Kind(count, ("A", "B", "start", "=", "end"), length, length)
