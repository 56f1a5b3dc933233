"""Corridor (Fan et al., 2020, section 4.1.1): remember a colour on a long way.

At the start the agent sees a blue or a green object. At the end of the corridor are a blue door on the left and a green
one on the right. Going through the door of the object's colour gives a reward of 1, the other door gives none, and the
episode ends.

Our choices, since the paper gives none: the corridor's length, 100 cells; the agent sees its own cell and the two
sides of it; the doors are always on the same sides; a step to a side without a door leaves the agent where it is; an
episode that has not ended after ``max_steps`` steps (default: three times the length) gives no reward. An agent that
acts at random needs three steps for a cell on average, so it gets to the end about every second time.
"""

import numpy as np
from gymnasium import spaces

from fairseq_plugins.agents.environments.pictures import COLOURS, FREE, WALL_COLOUR
from fairseq_plugins.agents.environments.world import Scene, World, check_whole

BLUE, GREEN = 1, 2


class Corridor(World):
    """The actions are 0: forward, 1: left, 2: right. An observation has the object in the agent's cell, the door on
    its left and the door on its right (0: nothing, 1: blue, 2: green).

    Args:
        length: cells of the corridor
    """

    colours = [FREE, COLOURS[4], COLOURS[2], COLOURS[4], COLOURS[2], WALL_COLOUR]
    letters = ".bgBG#"  # objects in small letters, doors in large ones

    def __init__(self, copies: int, max_steps: int | None = None, length: int = 100):
        check_whole("length", length, 2, 10**6)
        super().__init__(copies, 3 * length if max_steps is None else max_steps)
        self.length = length
        self.observation_space = spaces.MultiDiscrete([3, 3, 3])
        self.action_space = spaces.Discrete(3)
        self.place = np.zeros(copies, dtype=np.int64)
        self.colour = np.full(copies, BLUE)  # of the object

    def begin(self, copy: int, draw: np.random.Generator) -> None:
        self.place[copy] = 0
        self.colour[copy] = draw.integers(BLUE, GREEN + 1)

    def act(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        through = self.at_end & (actions != 0)
        door = np.where(actions == 1, BLUE, GREEN)
        self.place = np.minimum(self.place + (actions == 0), self.length - 1)
        return (through & (door == self.colour)).astype(np.float64), through

    @property
    def at_end(self) -> np.ndarray:
        return self.place == self.length - 1

    def observe(self) -> np.ndarray:
        doors = np.array([BLUE, GREEN]) * self.at_end[:, None]
        return np.concatenate([(self.colour * (self.place == 0))[:, None], doors], 1)

    def best_actions(self) -> np.ndarray:
        return np.where(~self.at_end, 0, np.where(self.colour == BLUE, 1, 2))

    def scene(self, copy: int) -> Scene:
        cells = np.full((3, self.length), 5)
        cells[1] = 0
        cells[1, 0] = self.colour[copy]
        cells[0, -1], cells[2, -1] = 2 + BLUE, 2 + GREEN
        return Scene(cells, 1, self.place[copy], heading=1)
