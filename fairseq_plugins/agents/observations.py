"""Observations of gymnasium's spaces as whole numbers, which are embedded, and other numbers, which are projected.

N observations of a batch, K whole numbers and F other numbers of each.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, reduce
from operator import getitem
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from fairseq_plugins.agents.distributions import WIDEST
from fairseq_plugins.agents.minigrid import is_mission, mission_words, with_symbols, words_of
from fairseq_plugins.errors import UserError

MOST = 10**6  # values of an observation: an agent has a vector for each of them
SYMBOLS = 32  # a box of whole numbers with so few values has names of things, such as objects and colours
KEPT = 10_000  # texts of which the numbers are remembered: a text mostly stays for an episode


class Observations(NamedTuple):
    """A batch: whole numbers [N, K] and other numbers [N, F].

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


class Part(NamedTuple):
    """A space that is neither Dict nor Tuple has whole numbers, or other numbers.

    Attributes:
        layout: how many
        encode: values of a batch -> [N, K] or [N, F]
    """

    layout: Layout
    encode: Callable


class Observer:
    """Encodes a batch of observations of a space, as a vector environment returns it.

    Attributes:
        layout: of all parts

    Raises:
        UserError: the space has too many values, or a part that cannot be embedded
    """

    def __init__(self, space: spaces.Space):
        self.parts = [(path, part_of(part)) for path, part in parts(with_symbols(space))]
        layouts = [part.layout for _, part in self.parts]
        self.layout = Layout([size for sizes, _ in layouts for size in sizes], sum(number for _, number in layouts))
        values = sum(self.layout.sizes) + self.layout.numbers
        if values > MOST:
            raise UserError(
                f"--environment: its observations have {values} values, and agents learn a vector for each; choose an"
                f" environment with {MOST} at most, or make its observations smaller."
            )

    def __call__(self, batch) -> Observations:
        whole: list[np.ndarray] = []
        numbers: list[np.ndarray] = []
        for path, part in self.parts:
            values = reduce(getitem, path, batch)
            (whole if part.layout.sizes else numbers).append(part.encode(values))
        copies = len(values)
        return Observations(joined(whole, copies, np.int64), joined(numbers, copies, np.float32))


def layout(space: spaces.Space) -> Layout:
    return Observer(space).layout


def parts(space: spaces.Space, path: tuple = ()) -> Iterator[tuple[tuple, spaces.Space]]:
    """The spaces that a Dict or Tuple is made of, in a fixed order, each with the keys that lead to it."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in space.items() if isinstance(space, spaces.Dict) else enumerate(space):
            yield from parts(part, (*path, key))
    else:
        yield path, space


def part_of(space: spaces.Space) -> Part:
    if is_mission(space):
        words, longest = mission_words(space)
        return texts(words_of, words, longest)
    for kind, made in KINDS.items():
        if isinstance(space, kind):
            return made(space)
    raise UserError(
        f"--environment: observations of {type(space).__name__} cannot be embedded; choose an environment with"
        " Discrete, MultiDiscrete, MultiBinary, Box or Text observations, or Dict or Tuple of these."
    )


def whole(start, sizes) -> Part:
    """Whole numbers from ``start`` on, and how many values each has."""
    start, sizes = np.reshape(start, (1, -1)), np.reshape(sizes, -1).tolist()
    return Part(Layout(sizes, 0), lambda values: rows_of(values) - start)


def box(space: spaces.Box) -> Part:
    if np.issubdtype(space.dtype, np.integer):
        low, high = (bound.astype(np.float64) for bound in (space.low, space.high))  # no overflow
        if (high - low < SYMBOLS).all():
            return whole(low.astype(np.int64), (high - low).astype(np.int64) + 1)
    return Part(Layout([], int(np.prod(space.shape))), lambda values: scaled(space, rows_of(values)))


def scaled(space: spaces.Box, rows: np.ndarray) -> np.ndarray:
    """Values [N, F] of a box, from -1 to 1 where it has bounds."""
    low, high = (bound.flatten().astype(np.float64) for bound in (space.low, space.high))
    width = np.where(np.isfinite(low) & np.isfinite(high), high - low, np.inf)
    bounded = (width > 0) & (width <= WIDEST)
    return np.where(bounded, 2 * (rows - np.where(bounded, low, 0)) / np.where(bounded, width, 1) - 1, rows)


def texts(split: Callable, known: list[str] | tuple[str, ...], longest: int) -> Part:
    """Texts as a number for each of ``longest`` places: 0 behind the end, 1 for what is not known."""
    numbers = {symbol: number for number, symbol in enumerate(known, 2)}

    @lru_cache(KEPT)
    def encode(text: str) -> list[int]:
        found = [numbers.get(symbol, 1) for symbol in split(text)[:longest]]
        return found + [0] * (longest - len(found))

    return Part(Layout([len(numbers) + 2] * longest, 0), lambda batch: np.array([encode(text) for text in batch]))


KINDS: dict[type, Callable[..., Part]] = {
    spaces.Discrete: lambda space: whole(space.start, space.n),
    spaces.MultiDiscrete: lambda space: whole(space.start, space.nvec),
    spaces.MultiBinary: lambda space: Part(Layout([], int(np.prod(space.shape))), rows_of),
    spaces.Box: box,
    spaces.Text: lambda space: texts(list, space.character_list, space.max_length),
}


def rows_of(values) -> np.ndarray:
    return np.asarray(values).reshape(len(values), -1)


def joined(columns: list[np.ndarray], rows: int, kind) -> np.ndarray:
    return np.concatenate(columns, 1).astype(kind) if columns else np.zeros((rows, 0), kind)
