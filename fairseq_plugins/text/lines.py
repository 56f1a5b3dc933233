"""Lines of text, as they are before any tokeniser."""

import re
import unicodedata

# Where a long line may be cut, the best places first: after a sentence, between words, anywhere
BORDERS = [re.compile(border) for border in (r"(?<=[.!?…])\s+|(?<=[。！？])", r"\s+", r"")]


def squeeze(line: str) -> str:
    """The line with single spaces and without control characters, since other programs may take these for line ends."""
    line = "".join(" " if unicodedata.category(character) == "Cc" else character for character in line)
    return " ".join(line.split())


def halves(line: str) -> tuple[str, str]:
    """The two parts of a line of at least two characters, cut at the best place next to the middle."""
    for border in BORDERS:
        cuts = [cut for cut in border.finditer(line) if cut.start() > 0 and cut.end() < len(line)]
        if cuts:
            cut = min(cuts, key=lambda cut: abs(cut.start() + cut.end() - len(line)))
            return line[: cut.start()], line[cut.end() :]
    raise ValueError(f"'{line}' cannot be cut")
