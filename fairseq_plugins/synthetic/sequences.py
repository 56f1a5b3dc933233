"""Copy, reverse or count a sequence, symbol by symbol (Feedback paper, section 4.1.1).

    copy      start 3 1 4 = 3 1         labels at "=" and after it: 3 1 4
    reverse   start 3 1 4 = 4 1                                     4 1 3
    counting  start A A A = B B B                                   B B B end

The symbols of the answer are inputs, too, so all labels of an answer are right exactly if greedy decoding gives the
answer. This form is our choice, as the paper does not give one. Of digits the paper says that models train on sequences
of length 40 and are tested on length 400. That can mean each sequence or the longest one, so there are both: copy and
reverse have one length, copy-varied and reverse-varied a uniform one up to it. So has counting, which is our choice.
"""

from collections.abc import Callable
from random import Random

from fairseq_plugins.synthetic.episodes import Episode, Kind

DIGITS = tuple("0123456789")


def asked(question: list[str], answer: list[str]) -> Episode:
    symbols = ["start", *question, "=", *answer[:-1]]
    return Episode(symbols, [None] * (len(symbols) - len(answer)) + answer)


def exactly(draw: Random, length: int) -> int:
    return length


def up_to(draw: Random, length: int) -> int:
    return draw.randint(1, length)


def digits(answer: Callable[[list[str]], list[str]], size: Callable[[Random, int], int]) -> Kind:
    """Sequences of digits, as many as ``size`` draws for a given length."""

    def draw_digits(draw: Random, length: int) -> Episode:
        question = draw.choices(DIGITS, k=size(draw, length))
        return asked(question, answer(question))

    return Kind(draw_digits, (*DIGITS, "start", "="), 40, 400)


def count(draw: Random, length: int) -> Episode:
    number = up_to(draw, length)
    return asked(["A"] * number, ["B"] * number + ["end"])


def backwards(question: list[str]) -> list[str]:
    return question[::-1]


COPY, COPY_VARIED = digits(list, exactly), digits(list, up_to)
REVERSE, REVERSE_VARIED = digits(backwards, exactly), digits(backwards, up_to)


def counting(length: int) -> Kind:
    """Counting up to ``length``, in training and in the test."""
    return Kind(count, ("A", "B", "start", "=", "end"), length, length)
