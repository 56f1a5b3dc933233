"""Where a text has spaces between tokens, learned from that text.

Moses splits marks from words and forgets whether there was a space: French "l'eau" and "l' eau" have the same tokens.
Its own detokeniser knows rules for some languages. Here the training text says it: for each pair of neighbouring
shapes of tokens, whether most of its occurrences have a space between them. The token beyond a mark may tell more: the
English "at 10:30" and "note: 30", the Finnish "EU:n" and "sanoi: niin".
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
        pairs: for two shapes "a b", is there a space between them? And for a place among three kinds of tokens, such as
            "0 :  0" for that behind the colon of 10:30, where most of its occurrences differ from its pair's
    """

    pairs: dict[str, bool]

    def join(self, tokens: Sequence[str], else_like: str) -> str:
        """The line of these tokens. Pairs that the text did not have are put together as in another line of the
        tokens."""
        others = spaces(else_like, tokens) or [True] * len(tokens)
        rules = self.pairs
        known = [rules.get(name, rules.get(pair, other)) for (name, pair), other in zip(_places(tokens), others)]
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
    pair_of: dict[str, str] = {}
    for line, tokens in lines:
        for (context, pair), space in zip(_places(tokens), spaces(line, tokens) or []):
            seen[context][space] += 1
            seen[pair][space] += 1
            pair_of[context] = pair
    rules = {pair: seen[pair][True] >= seen[pair][False] for pair in pair_of.values()}
    for context, pair in pair_of.items():
        other, usual = (seen[context][space] for space in (not rules[pair], rules[pair]))
        if other > max(usual, 1):
            rules[context] = not rules[pair]
    return Spacing(rules)


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


def _places(tokens: Sequence[str]) -> list[tuple[str, str]]:
    """For each two neighbours: a rule's name with the token beyond the mark among them, and one without. Two spaces in
    the first show the place."""
    shapes = _shapes(tokens)
    kinds = ["", *map(_kind, tokens, shapes), ""]
    names = []
    for before, left, right, behind, shape in zip(kinds, kinds[1:], kinds[2:], kinds[3:], shapes):
        names.append(f"{left}  {right} {behind}" if shape == "a" else f"{before} {left}  {right}")
    return list(zip(names, map(" ".join, zip(shapes, shapes[1:]))))


def _shapes(tokens: Sequence[str]) -> list[str]:
    """A shape is the token with "a" from the first letter or digit to the last. A mark that may open and close has 0 or
    1 behind it, by whether it opens."""
    seen: Counter[str] = Counter()
    shapes = []
    for token in tokens:
        shape = WORD.sub("a", token)
        shapes.append(f"{shape}{seen[token] % 2}" if shape in AMBIGUOUS else shape)
        seen[token] += 1
    return shapes


def _kind(token: str, shape: str) -> str:
    """Finer than the shape of a word: a number, capitals such as EU, a capitalised word, or another."""
    if shape != "a":
        return shape
    if token[0].isdigit():
        return "0"
    return "A" if token.isupper() else "Aa" if token[0].isupper() else "a"
