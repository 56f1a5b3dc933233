"""Lines of text, as they are before any tokeniser."""

import re
import unicodedata
from collections.abc import Callable
from typing import Any

from fairseq_plugins.text.languages import has_spaces

MAX_LEN_A = 1.5  # a translation of a line has at most this many times the tokens of its source, and max_len_b more
# Where a long line may be cut, the best places first: after a sentence, between words, anywhere
BREAKS = {"Cc", "Zl", "Zp"}  # categories: control characters and separators of lines and paragraphs
BORDERS = [re.compile(border) for border in (r"(?<=[.!?…])\s+|(?<=[。！？])", r"\s+", r"")]


def squeeze(line: str) -> str:
    """The line with single spaces and without control characters, since other programs may take these for line ends.
    Spaces that do not break, and others of a certain width, are characters of the text."""
    line = "".join(" " if unicodedata.category(character) in BREAKS else character for character in line)
    return re.sub(" +", " ", line).strip(" ")


def halves(line: str) -> tuple[str, str]:
    """The two parts of a line of at least two characters, cut at the best place next to the middle."""
    for border in BORDERS:
        cuts = [cut for cut in border.finditer(line) if cut.start() > 0 and cut.end() < len(line)]
        if cuts:
            cut = min(cuts, key=lambda cut: abs(cut.start() + cut.end() - len(line)))
            return line[: cut.start()], line[cut.end() :]
    raise ValueError(f"'{line}' cannot be cut")


def parts(line: str, encode: Callable[[str], Any], longest: int) -> list[Any]:
    """The tokens of a line; of several parts of it, if they are more than ``longest``; nothing of an empty line.

    Args:
        encode: gives the tokens of a text, the end of line included, as a sequence or a tensor
        longest: the most tokens that a model reads, the end of line included
    """
    tokens = encode(line)
    if len(tokens) < 2:
        return []
    if len(tokens) <= longest or len(line) < 2:
        return [tokens[-longest:]]
    return [part for half in halves(line) for part in parts(half.strip(), encode, longest)]


def join(parts: list[str]) -> str:
    """The line of these parts."""
    return (" " if has_spaces(parts) else "").join(parts)
