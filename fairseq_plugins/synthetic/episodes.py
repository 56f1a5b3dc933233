"""What a stream of labelled episodes is made of."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple


class Episode(NamedTuple):
    """Symbols, and beside each the label that belongs to it, or None where nothing is to be said."""

    symbols: list[str]
    labels: list[str | None]


@dataclass(frozen=True)
class Kind:
    """Episodes of one kind.

    Attributes:
        draw: (random generator, length) -> an episode
        vocabulary: its symbols and labels
        length: of training episodes; what is counted is said by the kind
        test_length: of test episodes
    """

    draw: Callable[[Random, int], Episode]
    vocabulary: tuple[str, ...]
    length: int
    test_length: int
