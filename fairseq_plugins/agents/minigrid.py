"""MiniGrid's observations: the words of its missions, and the symbols of its views.

MiniGrid (Chevalier-Boisvert et al., 2023) declares a mission as a space of its own, and a view as an image of bytes.
"""

import re
from collections.abc import Iterator

import numpy as np
from gymnasium import spaces

# BabyAI declares no words; these are those of minigrid/envs/babyai/core/verifier.py
BABYAI = """a after and ball behind blue box door front go green grey in key left next object of on open pick purple put
red right the then to up yellow you your"""
BABYAI_LONGEST = 80  # four objects to put next to others, with all that says where they are: 73
WIDEST_VIEW = 23  # cells to a side; pictures of views have three cells of eight points at least

words_of = re.compile(r"\w+").findall


def is_mission(space: spaces.Space) -> bool:
    return any(kind.__name__ == "MissionSpace" for kind in type(space).__mro__)


def mission_words(space) -> tuple[list[str], int]:
    """The words of a MissionSpace's texts, and the largest number of words of a text."""
    if type(space).__name__ == "BabyAIMissionSpace":
        return BABYAI.split(), BABYAI_LONGEST
    texts = [words_of(text) for text in missions(space)]
    return sorted({word for text in texts for word in text}), max(map(len, texts))


def missions(space) -> Iterator[str]:
    """Texts with every word of every placeholder, among them the longest."""
    choices = [sorted(texts, key=lambda text: -len(words_of(text))) for texts in space.ordered_placeholders or []]
    longest = [texts[0] for texts in choices]
    yield space.mission_func(*longest)
    for place, texts in enumerate(choices):
        for text in texts[1:]:
            yield space.mission_func(*longest[:place], text, *longest[place + 1 :])


def with_symbols(space: spaces.Space) -> spaces.Space:
    """The space with an object, a colour and a state in each cell of the view, in place of an image of bytes."""
    if not isinstance(space, spaces.Dict) or not any(map(is_mission, space.values())):
        return space
    view = space.get("image")
    if not isinstance(view, spaces.Box) or view.shape[2:] != (3,) or max(view.shape) > WIDEST_VIEW:
        return space
    from minigrid.core.constants import COLOR_TO_IDX, DIR_TO_VEC, OBJECT_TO_IDX, STATE_TO_IDX

    sizes = len(OBJECT_TO_IDX), len(COLOR_TO_IDX), max(len(STATE_TO_IDX), len(DIR_TO_VEC))  # of a door, of an agent
    return spaces.Dict({**space.spaces, "image": spaces.MultiDiscrete(np.broadcast_to(sizes, view.shape).copy())})
