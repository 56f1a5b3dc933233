"""Where a text has spaces between tokens, learned from that text.

Moses splits marks from words and forgets whether there was a space: French "l'eau" and "l' eau" have the same tokens.
Its own detokeniser knows rules for some languages. Here the training text says it: for each pair of neighbouring
shapes of tokens, whether most of its occurrences have a space between them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WORD = re.compile(r"[^\W_](?:.*[^\W_])?")
AMBIGUOUS = {'"', "'", "“", "”", "’"}  # marks that open in one language or place, and close in another
OPENING, CLOSING = "([{¿¡", ".,;:!?)]}%…"  # one occurrence of each beside a word is assumed


@dataclass(frozen=True)
class Spacing:
    """Rules for spaces.

    Args:
        pairs: for two shapes "a b", is there a space between them?
        after, before: for a shape, the share of its occurrences with a space there; of pairs that have no rule, the
            product decides
    """

    pairs: dict[str, bool] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)

    def join(self, tokens: Sequence[str]) -> str:
        """The line of these tokens."""
        shapes = _shapes(tokens)
        spaces = (" " if self._space(*pair) else "" for pair in zip(shapes, shapes[1:]))
        return "".join(part for pair in zip(["", *spaces], tokens) for part in pair)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Spacing":
        """The rules that ``asdict`` has written.

        Raises:
            ValueError, TypeError, AttributeError: the content is none of these rules
        """
        spacing = cls(**content)
        for rules, kind in ((spacing.pairs, bool), (spacing.after, float), (spacing.before, float)):
            if not all(isinstance(shape, str) and type(value) is kind for shape, value in rules.items()):
                raise ValueError("spacing has rules of other types")
        return spacing

    def _space(self, left: str, right: str) -> bool:
        pair = f"{left} {right}"
        if pair in self.pairs:
            return self.pairs[pair]
        return self.after.get(left, 1) * self.before.get(right, 1) >= 0.25


def learn(lines: Iterable[tuple[str, Sequence[str]]]) -> Spacing:
    """The rules of a text.

    Args:
        lines: each with its tokens. A line whose tokens are no parts of it, as after normalising, teaches nothing
    """
    pairs: dict[str, Counter] = defaultdict(Counter)
    assumed = dict.fromkeys(OPENING, False) | dict.fromkeys(CLOSING, True)
    after = defaultdict(Counter, {mark: Counter([space]) for mark, space in assumed.items()})
    before = defaultdict(Counter, {mark: Counter([not space]) for mark, space in assumed.items()})
    for line, tokens in lines:
        if (spaces := _spaces(line, tokens)) is None:
            continue
        shapes = _shapes(tokens)
        for left, right, space in zip(shapes, shapes[1:], spaces):
            pairs[f"{left} {right}"][space] += 1
            after[left][space] += 1
            before[right][space] += 1
    shares = [{key: seen[True] / seen.total() for key, seen in side.items() if seen[False]} for side in (after, before)]
    general = Spacing({}, *shares)
    rules = {}
    for pair, seen in pairs.items():
        space = seen[True] >= seen[False]
        if general._space(*pair.split(" ")) != space:
            rules[pair] = space
    return Spacing(rules, *shares)


def _spaces(line: str, tokens: Sequence[str]) -> list[bool] | None:
    """Is there a space before each token but the first? None if they are no parts of the line."""
    spaces, place = [], 0
    for token in tokens:
        space = line.startswith(" ", place)
        place += space
        if not line.startswith(token, place):
            return None
        spaces.append(space)
        place += len(token)
    return spaces[1:]


def _shapes(tokens: Sequence[str]) -> list[str]:
    """The tokens with "a" from the first letter or digit to the last. A mark that may open and close has 0 or 1 behind
    it, by whether it opens."""
    seen: Counter[str] = Counter()
    shapes = []
    for token in tokens:
        shape = WORD.sub("a", token)
        shapes.append(f"{shape}{seen[token] % 2}" if shape in AMBIGUOUS else shape)
        seen[token] += 1
    return shapes
