"""The kinds of episodes by name, and the drawing of splits."""

from random import Random

import numpy as np

from fairseq_plugins.synthetic import programs
from fairseq_plugins.synthetic.episodes import Kind
from fairseq_plugins.synthetic.random_walk import RANDOM_WALK
from fairseq_plugins.synthetic.sequences import COPY, COPY_VARIED, REVERSE, REVERSE_VARIED, counting

KINDS = {
    "random-walk": RANDOM_WALK,
    "programs-3": programs.kind("xyz"),
    "programs-5": programs.kind("xyzpr"),
    "programs-3-equal": programs.kind("xyz", ("==",)),  # the comparison of the paper's text
    "programs-5-equal": programs.kind("xyzpr", ("==",)),
    "copy": COPY,
    "copy-varied": COPY_VARIED,
    "reverse": REVERSE,
    "reverse-varied": REVERSE_VARIED,
    "counting-50": counting(50),
    "counting-1000": counting(1000),
}


def draw_split(
    kind: Kind, index: dict[str, int], unlabelled: int, seed: int, name: str, episodes: int, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """A split of ``episodes`` episodes. Seed and name of the split determine it.

    Args:
        index: the number of each symbol and label
        unlabelled: the number that means that there is no label

    Returns:
        Symbols [N], labels [N], and the start of each episode, then N [episodes + 1]; all are integers.
    """
    draw = Random(f"{seed} {name}")
    numbers = {**index, None: unlabelled}
    symbols, labels, starts = [], [], [0]
    for _ in range(episodes):
        episode = kind.draw(draw, length)
        symbols += [numbers[symbol] for symbol in episode.symbols]
        labels += [numbers[label] for label in episode.labels]
        starts.append(len(symbols))
    return np.array(symbols, dtype=np.int64), np.array(labels, dtype=np.int64), np.array(starts)
