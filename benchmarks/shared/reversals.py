"""A corpus that a tiny model learns in seconds: strings of letters, and the same backwards."""

import random
from pathlib import Path


def write_reversals(folder: Path, splits: dict[str, int]) -> Path:
    """Write ``SPLIT.src`` and ``SPLIT.tgt`` of so many lines each: two to seven out of eight letters a line."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    for split, number in splits.items():
        words = [draw.choices("abcdefgh", k=draw.randint(2, 7)) for _ in range(number)]
        (folder / f"{split}.src").write_text("".join(" ".join(word) + "\n" for word in words))
        (folder / f"{split}.tgt").write_text("".join(" ".join(reversed(word)) + "\n" for word in words))
    return folder
