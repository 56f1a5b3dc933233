"""Where a text has spaces between tokens, learned from that text.

Moses splits marks from words and forgets whether there was a space: French "l'eau" and "l' eau" have the same tokens.
Its own detokeniser knows rules for some languages. Here the training text says it: for each pair of neighbouring
shapes of tokens, whether most of its occurrences have a space between them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WORD = re.compile(r"[^\W_](?:.*[^\W_])?")
AMBIGUOUS = {'"', "'", "“", "”", "’"}  # marks that open in one language or place, and close in another


@dataclass(frozen=True)
class Spacing:
    """Rules for spaces.

    Args:
        pairs: for two shapes "a b", is there a space between them?
    """

    pairs: dict[str, bool]

    def join(self, tokens: Sequence[str], else_like: str) -> str:
        """The line of these tokens. Pairs that the text did not have are put together as in another line of the
        tokens."""
        others = spaces(else_like, tokens) or [True] * len(tokens)
        known = [self.pairs.get(pair, other) for pair, other in zip(_pairs(tokens), others)]
        return "".join(part for pair in zip(["", *(" " * space for space in known)], tokens) for part in pair)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Spacing":
        """The rules that ``asdict`` has written.

        Raises:
            ValueError, TypeError, AttributeError: the content is none of these rules
        """
        spacing = cls(**content)
        if not all(isinstance(pair, str) and type(space) is bool for pair, space in spacing.pairs.items()):
            raise ValueError("spacing has rules of other types")
        return spacing


def learn(lines: Iterable[tuple[str, Sequence[str]]]) -> Spacing:
    """The rules of a text.

    Args:
        lines: each with its tokens. A line whose tokens are no parts of it, as after normalising, teaches nothing
    """
    seen: dict[str, Counter[bool]] = defaultdict(Counter)
    for line, tokens in lines:
        for pair, space in zip(_pairs(tokens), spaces(line, tokens) or []):
            seen[pair][space] += 1
    return Spacing({pair: counts[True] >= counts[False] for pair, counts in seen.items()})


def spaces(line: str, tokens: Sequence[str]) -> list[bool] | None:
    """Is there a space before each token but the first? None if they are no parts of the line."""
    found, place = [], 0
    for token in tokens:
        space = line.startswith(" ", place)
        place += space
        if not line.startswith(token, place):
            return None
        found.append(space)
        place += len(token)
    return found[1:]


def _pairs(tokens: Sequence[str]) -> list[str]:
    """Neighbouring shapes. A shape is the token with "a" from the first letter or digit to the last. A mark that may
    open and close has 0 or 1 behind it, by whether it opens."""
    seen: Counter[str] = Counter()
    shapes = []
    for token in tokens:
        shape = WORD.sub("a", token)
        shapes.append(f"{shape}{seen[token] % 2}" if shape in AMBIGUOUS else shape)
        seen[token] += 1
    return list(map(" ".join, zip(shapes, shapes[1:])))
