"""The algorithmic tasks of the active-memory paper (section 4.2): sequences of integers, and the answers to predict.

B batch, N size, T length of a sequence (N, or 2 N). All randomness comes from the generator that is passed in.
"""

import copy
from math import isqrt
from typing import Self

import numpy as np
from numpy.random import Generator

SEPARATOR = 2  # between two binary numbers


class Algorithm:
    """A task.

    Attributes:
        vocabulary: all integers are below this number
        step: how much a curriculum raises N at a time
    """

    vocabulary = 20
    step = 1

    def with_vocabulary(self, size: int) -> Self:
        """The same task with integers below `size`."""
        task = copy.copy(self)
        task.vocabulary = size
        return task

    def inputs(self, rng: Generator, batch: int, size: int) -> np.ndarray:
        """[B, T] integers."""
        return rng.integers(self.vocabulary, size=(batch, size))

    def answers(self, inputs: np.ndarray) -> np.ndarray:
        """The answers to inputs [B, T], of the same shape."""
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


class Binary(Algorithm):
    """A task of bits. All such tasks have one vocabulary: the bits, and what separates two numbers."""

    vocabulary = 3


class Not(Binary):
    """Invert bits."""

    def inputs(self, rng, batch, size):
        return rng.integers(2, size=(batch, size))

    def answers(self, inputs):
        return 1 - inputs


class Remember(Algorithm):
    """N integers and N zeros become N zeros and the integers. Zero is both a filler and one of the integers."""

    def inputs(self, rng, batch, size):
        return np.concatenate([super().inputs(rng, batch, size), np.zeros((batch, size), dtype=np.int64)], axis=1)

    def answers(self, inputs):
        return np.roll(inputs, inputs.shape[1] // 2, axis=1)


class Duplicate(Remember):
    """N integers and N zeros become the integers twice."""

    def answers(self, inputs):
        return np.tile(inputs[:, : inputs.shape[1] // 2], 2)


class BinaryOperation(Binary):
    """Two numbers of (N - 1) / 2 bits with a separator between them; the result has N bits. The most significant bit
    comes first. A curriculum lengthens both numbers by one bit at a time."""

    step = 2

    def bound(self, size: int) -> int:
        """Operands are below this number."""
        raise NotImplementedError

    def result(self, a: int, b: int) -> int:
        raise NotImplementedError

    def inputs(self, rng, batch, size):
        """
        Raises:
            ValueError: the size is even, or below 3
        """
        if size < 3 or size % 2 == 0:
            raise ValueError(f"two numbers of equal length and a separator cannot have {size} symbols")
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
    """A uniform random integer from 0 to bound - 1; it may have more than 64 bits."""
    length = (bound - 1).bit_length()
    size = -(-length // 8)
    while True:
        number = int.from_bytes(rng.bytes(size)) >> (8 * size - length)
        if number < bound:
            return number


def bits(number: int, length: int) -> list[int]:
    """The bits of a number, the most significant first."""
    return [number >> place & 1 for place in reversed(range(length))]


def value(bits: np.ndarray) -> int:
    number = 0
    for bit in bits:
        number = 2 * number + int(bit)
    return number
