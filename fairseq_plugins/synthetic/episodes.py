"""Episodes with labels, the parts of a stream."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple


class Episode(NamedTuple):
    """Symbols, and a label for each; None where there is no label."""

    symbols: list[str]
    labels: list[str | None]


@dataclass(frozen=True)
class Kind:
    """Episodes of one kind.

    Attributes:
        draw: a function (random generator, length) -> episode
        vocabulary: all symbols and labels
        length: of training episodes, in units that depend on the kind
        test_length: of test episodes
        groups: a function symbols of an episode -> for each the group whose labels are counted together
    """

    draw: Callable[[Random, int], Episode]
    vocabulary: tuple[str, ...]
    length: int
    test_length: int
    groups: Callable[[Sequence[str]], list[str]] | None = None
