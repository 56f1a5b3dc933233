"""The algorithmic tasks of the active-memory paper (section 4.2): sequences of integers, and the answers to predict.

B batch, N size, T length of a sequence (N, or 2 N). All randomness comes from the generator that is passed in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
from operator import add, mul

import numpy as np
from numpy.random import Generator

SEPARATOR = 2  # between two binary numbers


def integers(rng: Generator, batch: int, size: int, vocabulary: int) -> np.ndarray:
    return rng.integers(vocabulary, size=(batch, size))


def bits_alone(rng: Generator, batch: int, size: int, vocabulary: int) -> np.ndarray:
    return integers(rng, batch, size, 2)


def integers_then_zeros(rng: Generator, batch: int, size: int, vocabulary: int) -> np.ndarray:
    """N integers and N zeros. Zero is both a filler and one of the integers."""
    return np.pad(integers(rng, batch, size, vocabulary), ((0, 0), (0, size)))


@dataclass(frozen=True)
class Algorithm:
    """A task.

    Attributes:
        answers: a function inputs [B, T] -> answers [B, T]
        draw: a function (generator, B, N, vocabulary) -> inputs [B, T]
        vocabulary: all integers are below this number
        binary: is it a task of bits? All of these have one vocabulary: the bits, and the separator of two numbers
        step: how much a curriculum raises N at a time; 2 for tasks of two binary numbers, which need an odd N
    """

    answers: Callable[[np.ndarray], np.ndarray]
    draw: Callable[[Generator, int, int, int], np.ndarray] = integers
    vocabulary: int = 20
    binary: bool = False
    step: int = 1

    def inputs(self, rng: Generator, batch: int, size: int) -> np.ndarray:
        return self.draw(rng, batch, size, self.vocabulary)


def operation(result: Callable[[int, int], int], bound: Callable[[int], int]) -> Algorithm:
    """Two numbers of (N - 1) / 2 bits with a separator between them; the result has N bits. The most significant bit
    comes first.

    Args:
        result: of two operands
        bound: a function N -> the number that operands are below
    """

    def draw(rng: Generator, batch: int, size: int, vocabulary: int) -> np.ndarray:
        """Raises ValueError for a size that is even, or below 3."""
        if size < 3 or size % 2 == 0:
            raise ValueError(f"two numbers of equal length and a separator cannot have {size} symbols")
        number = partial(below, rng, bound(size))
        rows = [(bits(number(), size // 2), bits(number(), size // 2)) for _ in range(batch)]
        return np.array([[*a, SEPARATOR, *b] for a, b in rows])

    def answers(inputs: np.ndarray) -> np.ndarray:
        half = inputs.shape[1] // 2
        operands = ((value(row[:half]), value(row[half + 1 :])) for row in inputs)
        return np.array([bits(result(a, b), inputs.shape[1]) for a, b in operands])

    return Algorithm(answers, draw, vocabulary=3, binary=True, step=2)


def below(rng: Generator, bound: int) -> int:
    """A uniform random integer from 0 to bound - 1; it may have more than 64 bits."""
    length = (bound - 1).bit_length()
    size = -(-length // 8)
    while True:
        number = int.from_bytes(rng.bytes(size)) >> (8 * size - length)
        if number < bound:
            return number


def bits(number: int, length: int) -> list[int]:
    """The bits of a number, the most significant first."""
    return [int(bit) for bit in f"{number:0{length}b}"]


def value(bits: np.ndarray) -> int:
    return int("".join(map(str, bits)), 2)


ALGORITHMS = {
    "reverse": Algorithm(lambda inputs: inputs[:, ::-1].copy(), vocabulary=100),
    "sort": Algorithm(lambda inputs: np.sort(inputs, axis=1)),
    # the bounds are those of the paper's code, which never draws the largest number to add
    "addition": operation(add, bound=lambda size: 2 ** (size // 2) - 1),
    "multiply": operation(mul, bound=lambda size: isqrt(2 ** (size - 1) - 1)),
    "not": Algorithm(lambda inputs: 1 - inputs, bits_alone, vocabulary=3, binary=True),
    "remember": Algorithm(lambda inputs: np.roll(inputs, inputs.shape[1] // 2, axis=1), integers_then_zeros),
    "copy": Algorithm(np.copy),
    "duplicate": Algorithm(lambda inputs: np.tile(inputs[:, : inputs.shape[1] // 2], 2), integers_then_zeros),
}
