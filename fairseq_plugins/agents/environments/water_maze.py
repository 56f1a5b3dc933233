"""Water Maze (Fan et al., 2020, sections 6.1 and 7.3): find the same place again and again.

Each cell of a square has an id. The ids and the goal stay as they are within an episode. The agent sees the ids of its
cell and of the goal, and a sign of the goal if it is near. Reaching the goal gives a reward of 1 and puts the agent
on a random cell.

"The agent can see if the goal is within a 3 x 3 area around it", says section 7.3. There are two readings (VIEWS): the
agent sees *whether* the goal is there, 1 or 0, as the words say; or, more generously, *where* it is, the number of its
cell row by row, or 9.

Our choices: no two cells have the same id; the agent moves up, right, down or left, and stays where it is at the
edge; it is never put on the goal.
"""

import numpy as np
from gymnasium import spaces

from fairseq_plugins.agents.environments.pictures import COLOURS, FREE
from fairseq_plugins.agents.environments.world import MOVES, Scene, World, check_whole

CELLS = 9  # of the 3 x 3 area
VIEWS = {"whether": 2, "where": CELLS + 1}  # the setting ``view``, and how many values an observation of the goal has


class WaterMaze(World):
    """The actions are 0: up, 1: right, 2: down, 3: left. An observation has the id of the agent's cell, the id of the
    goal, and a number for the goal in the view.

    Args:
        size: cells to a side
        view: how the agent sees a goal in the 3 x 3 cells around it, one of VIEWS
    """

    def __init__(self, copies: int, max_steps: int = 200, size: int = 15, view: str = "whether"):
        super().__init__(copies, max_steps)
        check_whole("size", size, 2, 500)
        if view not in list(VIEWS):  # a list is in no dictionary
            raise ValueError(f"view {view!r} is none of {', '.join(VIEWS)}.")
        self.size, self.view = size, view
        shades = np.arange(size**2)[:, None] / size**2  # an id is a shade of grey
        self.colours = [*(np.array(FREE) * (1 - 0.4 * shades)).tolist(), COLOURS[2]]
        self.letters = "." * size**2 + "G"
        self.observation_space = spaces.MultiDiscrete([size**2, size**2, VIEWS[view]])
        self.action_space = spaces.Discrete(len(MOVES))
        self.ids = np.zeros((copies, size, size), dtype=np.int64)
        self.goal = np.zeros((copies, 2), dtype=np.int64)
        self.place = np.zeros((copies, 2), dtype=np.int64)  # of the agent

    def begin(self, copy: int, draw: np.random.Generator) -> None:
        self.ids[copy] = draw.permutation(self.size**2).reshape(self.size, self.size)
        self.goal[copy] = draw.integers(self.size, size=2)
        self.put(copy, draw)

    def put(self, copy: int, draw: np.random.Generator) -> None:
        """Put the agent on a random cell beside the goal's."""
        goal = self.goal[copy, 0] * self.size + self.goal[copy, 1]
        cell = (goal + 1 + draw.integers(self.size**2 - 1)) % self.size**2
        self.place[copy] = divmod(int(cell), self.size)

    def act(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.place = np.clip(self.place + MOVES[actions], 0, self.size - 1)
        reached = (self.place == self.goal).all(1)
        for copy in np.nonzero(reached)[0]:
            self.put(int(copy), self.draws[copy])
        return reached.astype(np.float64), np.zeros(self.copies, dtype=bool)

    def observe(self) -> np.ndarray:
        every = np.arange(self.copies)
        here = self.ids[every, self.place[:, 0], self.place[:, 1]]
        goal = self.ids[every, self.goal[:, 0], self.goal[:, 1]]
        down, right = (self.goal - self.place).T
        near = (abs(down) <= 1) & (abs(right) <= 1)
        seen = near if self.view == "whether" else np.where(near, (down + 1) * 3 + right + 1, CELLS)
        return np.stack([here, goal, seen], 1)

    def best_actions(self) -> np.ndarray:
        (down, right) = (self.goal - self.place).T
        vertical = np.where(down < 0, 0, 2)
        return np.where(down != 0, vertical, np.where(right > 0, 1, 3))

    def scene(self, copy: int) -> Scene:
        cells = self.ids[copy].copy()
        cells[tuple(self.goal[copy])] = self.size**2
        row, column = self.place[copy]
        return Scene(cells, row, column)
