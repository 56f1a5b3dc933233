"""The algorithmic tasks against Python's integers and sorted(), and against samples of the paper's code."""

from math import prod

import numpy as np
import pytest

from fairseq_plugins.synthetic.algorithms import ALGORITHMS, below

SIZES = (5, 7, 21, 203)  # 203: numbers of 101 bits, the last of a curriculum by two


def draw(name, size, batch=40, seed=1):
    """Inputs and answers as lists of integers."""
    algorithm = ALGORITHMS[name]
    inputs = algorithm.inputs(np.random.default_rng(seed), batch, size)
    answers = algorithm.answers(inputs)
    assert inputs.shape == answers.shape and inputs.dtype == answers.dtype == np.int64
    return inputs.tolist(), answers.tolist()


def number(bits):
    return int("".join(map(str, bits)), 2)


def operands(row):
    half = len(row) // 2
    assert row[half] == 2
    return number(row[:half]), number(row[half + 1 :])


ANSWERS = {
    "reverse": lambda row: list(reversed(row)),
    "sort": sorted,
    "copy": list,
    "not": lambda row: [int(not bit) for bit in row],
    "remember": lambda row: [0] * (len(row) // 2) + row[: len(row) // 2],
    "duplicate": lambda row: row[: len(row) // 2] * 2,
    "addition": lambda row: sum(operands(row)),
    "multiply": lambda row: prod(operands(row)),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name, size):
    for row, answer in zip(*draw(name, size), strict=True):
        assert ANSWERS[name](row) == (number(answer) if name in ("addition", "multiply") else answer)
        assert len(row) == len(answer) == (2 * size if name in ("remember", "duplicate") else size)


@pytest.mark.parametrize("name, vocabulary", [("reverse", 100), ("sort", 20), ("remember", 20), ("not", 2)])
def test_every_value_is_drawn(name, vocabulary):
    values = {value for row in draw(name, 20, batch=200)[0] for value in row}
    assert values == set(range(vocabulary)) and vocabulary <= ALGORITHMS[name].vocabulary


@pytest.mark.parametrize("name, largest", [("addition", 14), ("multiply", 14)])
def test_operands_are_below_the_codes_bounds(name, largest):
    drawn = {operand for row in draw(name, 9, batch=400)[0] for operand in operands(row)}
    assert drawn == set(range(largest + 1))


def test_numbers_below_a_bound_are_uniform():
    rng = np.random.default_rng(1)
    counts = np.bincount([below(rng, 11) for _ in range(11000)], minlength=11)
    assert len(counts) == 11 and abs(counts - 1000).max() < 4 * 1000**0.5
    assert max(below(rng, 3 * 2**80).bit_length() for _ in range(20)) == 82


@pytest.mark.parametrize("size", [1, 6])
def test_a_size_that_cannot_be_halved_is_refused(size):
    with pytest.raises(ValueError, match=f"cannot have {size} symbols"):
        draw("addition", size)
