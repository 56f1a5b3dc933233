"""Observations of gymnasium's spaces as whole numbers, which are embedded, and other numbers, which are projected."""

from collections.abc import Iterator
from functools import reduce
from operator import getitem
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from fairseq_plugins.errors import UserError

MOST = 10**6  # values of an observation: an agent has a vector for each of them
WIDEST = 10**6  # range of a number that is scaled; wider ones are the limits of a type, and mean none


class Observations(NamedTuple):
    """A batch of N observations: whole numbers [N, K] and other numbers [N, F].

    Numbers of a box that has bounds are mapped to the range from -1 to 1, others stay as they are.
    """

    whole: np.ndarray
    numbers: np.ndarray


class Layout(NamedTuple):
    """The contents of a space's observations.

    Attributes:
        sizes: for each of the K whole numbers, how many values it has, from 0
        numbers: F
    """

    sizes: list[int]
    numbers: int


def layout(space: spaces.Space) -> Layout:
    """Raises UserError for a space with too many values, or with a part that is neither whole numbers nor a box."""
    sizes, numbers = [], 0
    for _, part in parts(space):
        if isinstance(part, spaces.Discrete):
            sizes.append(int(part.n))
        elif isinstance(part, spaces.MultiDiscrete):
            sizes += part.nvec.flatten().tolist()
        elif isinstance(part, spaces.MultiBinary | spaces.Box):
            numbers += int(np.prod(part.shape))
        else:
            raise UserError(
                f"--environment: observations of {type(part).__name__} cannot be embedded; choose an environment with"
                " Discrete, MultiDiscrete, MultiBinary or Box observations, or Dict or Tuple of these."
            )
    if sum(sizes) + numbers > MOST:
        raise UserError(
            f"--environment: its observations have {sum(sizes) + numbers} values, and agents learn a vector for each;"
            f" choose an environment with {MOST} at most, or make its observations smaller."
        )
    return Layout(sizes, numbers)


def observations(space: spaces.Space, batch) -> Observations:
    """The batch of observations that a vector environment returned; ``space`` is that of a single environment."""
    whole, numbers = [], []
    for path, part in parts(space):
        values = reduce(getitem, path, batch)
        rows = np.asarray(values).reshape(len(values), -1)
        if isinstance(part, spaces.Discrete | spaces.MultiDiscrete):
            whole.append(rows - np.reshape(part.start, (1, -1)))
        else:
            numbers.append(scaled(part, rows) if isinstance(part, spaces.Box) else rows)
    return Observations(joined(whole, len(rows), np.int64), joined(numbers, len(rows), np.float32))


def scaled(box: spaces.Box, rows: np.ndarray) -> np.ndarray:
    """Values [N, F] of a box, from -1 to 1 where it has bounds."""
    low, high = (bound.flatten().astype(np.float64) for bound in (box.low, box.high))
    width = np.where(np.isfinite(low) & np.isfinite(high), high - low, np.inf)
    bounded = (width > 0) & (width <= WIDEST)
    return np.where(bounded, 2 * (rows - np.where(bounded, low, 0)) / np.where(bounded, width, 1) - 1, rows)


def parts(space: spaces.Space, path: tuple = ()) -> Iterator[tuple[tuple, spaces.Space]]:
    """The spaces that a Dict or Tuple is made of, in a fixed order, each with the keys that lead to it."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in space.items() if isinstance(space, spaces.Dict) else enumerate(space):
            yield from parts(part, (*path, key))
    else:
        yield path, space


def joined(columns: list[np.ndarray], rows: int, kind) -> np.ndarray:
    return np.concatenate(columns, 1).astype(kind) if columns else np.zeros((rows, 0), kind)
