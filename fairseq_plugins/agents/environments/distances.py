"""Numbers of steps to a goal, by breadth-first search."""

from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

FAR = np.iinfo(np.int32).max


def distances(shape: tuple[int, ...], goals: Iterable[tuple], before: Callable[[tuple], Iterable[tuple]]) -> np.ndarray:
    """Steps from each state to the nearest goal, in an array of this shape; FAR where there is no way.

    Args:
        before: the states from which one step leads to a state
    """
    steps = np.full(shape, FAR, dtype=np.int32)
    waiting = deque(goals)
    for goal in waiting:
        steps[goal] = 0
    while waiting:
        state = waiting.popleft()
        for other in before(state):
            if steps[other] == FAR:
                steps[other] = steps[state] + 1
                waiting.append(other)
    return steps
