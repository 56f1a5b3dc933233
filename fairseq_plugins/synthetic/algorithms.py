"""The algorithmic tasks of the active-memory paper (section 4.2): integer sequences and what is to be made of them.

B batch, N size, T length of a sequence (N, or 2 N). Everything follows from the generator that is handed in.
"""

from math import isqrt

import numpy as np
from numpy.random import Generator

SEPARATOR = 2  # between two binary numbers


class Algorithm:
    """A task.

    Attributes:
        vocabulary: integers are below it
        step: by how much a curriculum raises N
    """

    vocabulary = 20
    step = 1

    def inputs(self, rng: Generator, batch: int, size: int) -> np.ndarray:
        """[B, T] integers."""
        return rng.integers(self.vocabulary, size=(batch, size))

    def answers(self, inputs: np.ndarray) -> np.ndarray:
        """What is to be made of inputs [B, T], of the same shape."""
        raise NotImplementedError


class Copy(Algorithm):
    def answers(self, inputs):
        return inputs.copy()


class Reverse(Algorithm):
    vocabulary = 100

    def answers(self, inputs):
        return inputs[:, ::-1].copy()


class Sort(Algorithm):
    def answers(self, inputs):
        return np.sort(inputs, axis=1)


class Not(Algorithm):
    """Bits. The vocabulary is that of all binary tasks."""

    vocabulary = 3

    def inputs(self, rng, batch, size):
        return rng.integers(2, size=(batch, size))

    def answers(self, inputs):
        return 1 - inputs


class Remember(Algorithm):
    """N integers and N zeros become N zeros and the integers. Zero is filler and value; N counts the integers alone."""

    def inputs(self, rng, batch, size):
        return np.concatenate([super().inputs(rng, batch, size), np.zeros((batch, size), dtype=np.int64)], axis=1)

    def answers(self, inputs):
        return np.roll(inputs, inputs.shape[1] // 2, axis=1)


class Duplicate(Remember):
    """N integers and N zeros become the integers twice."""

    def answers(self, inputs):
        return np.tile(inputs[:, : inputs.shape[1] // 2], 2)


class BinaryOperation(Algorithm):
    """Two numbers of n = (N - 1) / 2 bits with a separator between them, and a result of N bits, the most significant
    first. A curriculum makes both numbers longer by a bit."""

    vocabulary = 3
    step = 2

    def bound(self, size: int) -> int:
        """Operands are below it."""
        raise NotImplementedError

    def result(self, a: int, b: int) -> int:
        raise NotImplementedError

    def inputs(self, rng, batch, size):
        """
        Raises:
            ValueError: the size is not odd, or below 3
        """
        if size < 3 or size % 2 == 0:
            raise ValueError(f"two numbers and a separator do not fill {size} places evenly")
        number, bound = size // 2, self.bound(size)
        rows = [(below(rng, bound), below(rng, bound)) for _ in range(batch)]
        return np.array([[*bits(a, number), SEPARATOR, *bits(b, number)] for a, b in rows])

    def answers(self, inputs):
        size = inputs.shape[1]
        operands = [(value(row[: size // 2]), value(row[size // 2 + 1 :])) for row in inputs]
        return np.array([bits(self.result(a, b), size) for a, b in operands])


class Addition(BinaryOperation):
    def bound(self, size):
        return 2 ** (size // 2) - 1  # as in the paper's code, which never draws the largest number

    def result(self, a, b):
        return a + b


class Multiply(BinaryOperation):
    def bound(self, size):
        return isqrt(2 ** (size - 1) - 1)  # as in the paper's code

    def result(self, a, b):
        return a * b


ALGORITHMS = {
    "reverse": Reverse(),
    "sort": Sort(),
    "addition": Addition(),
    "multiply": Multiply(),
    "not": Not(),
    "remember": Remember(),
    "copy": Copy(),
    "duplicate": Duplicate(),
}


def below(rng: Generator, bound: int) -> int:
    """A uniform integer from 0 to bound - 1, which may have more than 64 bits."""
    length = (bound - 1).bit_length()
    size = -(-length // 8)
    while True:
        number = int.from_bytes(rng.bytes(size)) >> (8 * size - length)
        if number < bound:
            return number


def bits(number: int, length: int) -> list[int]:
    """The most significant first."""
    return [number >> place & 1 for place in reversed(range(length))]


def value(bits: np.ndarray) -> int:
    number = 0
    for bit in bits:
        number = 2 * number + int(bit)
    return number
