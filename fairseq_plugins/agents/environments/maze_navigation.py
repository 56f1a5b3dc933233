"""Maze Navigation (Fan et al., 2020, sections 4.2.2, 6.1 and 7.2): find coloured objects in a random maze.

One colour is the target. Reaching its object gives a reward of 1, and another colour becomes the target. The agent sees
the 3 x 3 cells around it, and the target's colour. In Maze Navigation it goes forward or turns, and sees the cells as
it faces them. In the easy version it goes up, right, down or left.

Our choices: the maze fills the whole square, with blocks around it; objects do not stand in the way; the new target is
another colour than the old one; the agent starts on a free cell without an object.
"""

import numpy as np
from gymnasium import spaces

from fairseq_plugins.agents.environments.distances import distances
from fairseq_plugins.agents.environments.kruskal import around, maze
from fairseq_plugins.agents.environments.pictures import BLOCK, COLOURS, FREE, LETTERS, agent_letter, enlarge
from fairseq_plugins.agents.environments.world import MOVES, World, check_whole

WALL, EMPTY, OBJECT = 0, 1, 2  # what a cell holds; objects count on from here, one number a colour
VIEW = np.array([(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1)])


class MazeNavigationEasy(World):
    """The actions are 0: up, 1: right, 2: down, 3: left. An observation has the nine cells of the view, row by row
    (0: block, 1: free, 2 and more: an object), and the target's colour.

    Args:
        size: cells to a side, an odd number
        objects: number of objects, each of another colour
    """

    def __init__(self, copies: int, max_steps: int = 200, size: int = 9, objects: int = 8):
        super().__init__(copies, max_steps)
        check_whole("size", size, 3, 999)
        if size % 2 == 0:
            raise ValueError(f"size {size} is not an odd number.")
        rooms = (size // 2 + 1) ** 2  # an object in each of them would leave none to the agent
        check_whole("objects", objects, 2, min(len(COLOURS), rooms - 1))
        self.size, self.objects = size, objects
        self.observation_space = spaces.MultiDiscrete([OBJECT + objects] * len(VIEW) + [objects])
        self.action_space = spaces.Discrete(len(MOVES))
        self.cells = np.full((copies, size + 2, size + 2), WALL, dtype=np.int64)  # with blocks around the maze
        self.places = np.zeros((copies, objects, 2), dtype=np.int64)  # of the objects, in the maze
        self.place = np.zeros((copies, 2), dtype=np.int64)  # of the agent
        self.target = np.zeros(copies, dtype=np.int64)
        self.ways: list[dict[int, np.ndarray]] = [{} for _ in range(copies)]  # distances to targets, for best_actions

    def begin(self, copy: int, draw: np.random.Generator) -> None:
        free = maze(self.size, draw)
        self.cells[copy, 1:-1, 1:-1] = np.where(free, EMPTY, WALL)
        places = draw.permutation(np.argwhere(free))
        self.places[copy], self.place[copy] = places[: self.objects], places[self.objects]
        for colour, (row, column) in enumerate(self.places[copy]):
            self.cells[copy, row + 1, column + 1] = OBJECT + colour
        self.target[copy] = draw.integers(self.objects)
        self.ways[copy] = {}

    def restore(self, state: dict) -> None:
        super().restore(state)
        self.ways = [{} for _ in range(self.copies)]

    def act(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.move(MOVES[actions])
        return self.reward()

    def move(self, moves: np.ndarray) -> None:
        """Move the agents [N, 2], except into blocks."""
        there = self.place + moves
        free = self.cells[np.arange(self.copies), there[:, 0] + 1, there[:, 1] + 1] != WALL
        self.place[free] = there[free]

    def reward(self) -> tuple[np.ndarray, np.ndarray]:
        every = np.arange(self.copies)
        reached = (self.place == self.places[every, self.target]).all(1)
        for copy in np.nonzero(reached)[0]:
            self.target[copy] = (self.target[copy] + 1 + self.draws[copy].integers(self.objects - 1)) % self.objects
        return reached.astype(np.float64), np.zeros(self.copies, dtype=bool)

    def observe(self) -> np.ndarray:
        return self.see(np.broadcast_to(VIEW, (self.copies, *VIEW.shape)))

    def see(self, view: np.ndarray) -> np.ndarray:
        """Observations, of the cells with offsets ``view`` [N, 9, 2] from the agents."""
        seen = self.place[:, None] + 1 + view
        cells = self.cells[np.arange(self.copies)[:, None], seen[..., 0], seen[..., 1]]
        return np.concatenate([cells, self.target[:, None]], 1)

    def best_actions(self) -> np.ndarray:
        return np.array([self.best_action(copy) for copy in range(self.copies)])

    def best_action(self, copy: int) -> int:
        way = self.way(copy)
        there = [tuple(self.place[copy] + move) for move in MOVES]
        free = around(self.free(copy), *self.place[copy])
        return min((action for action in range(len(MOVES)) if there[action] in free), key=lambda a: way[there[a]])

    def way(self, copy: int) -> np.ndarray:
        """Steps from each state to the target."""
        target = int(self.target[copy])
        if target not in self.ways[copy]:
            self.ways[copy][target] = self.search(copy, tuple(self.places[copy, target]))
        return self.ways[copy][target]

    def search(self, copy: int, goal: tuple[int, int]) -> np.ndarray:
        free = self.free(copy)
        return distances(free.shape, [goal], lambda cell: [other for other in around(free, *cell) if free[other]])

    def free(self, copy: int) -> np.ndarray:
        return self.cells[copy, 1:-1, 1:-1] != WALL

    def heading(self, copy: int) -> int | None:
        """The direction that the agent faces, as an index of MOVES; None if it faces none."""
        return None

    def picture(self, copy: int) -> np.ndarray:
        colours = np.concatenate([[BLOCK, FREE], COLOURS])
        picture = np.concatenate([colours[self.cells[copy]], np.full((1, self.size + 2, 3), FREE)])
        picture[-1, 0] = COLOURS[self.target[copy]]  # below the maze: the target's colour
        return enlarge(picture, *self.place[copy] + 1, self.heading(copy))

    def text(self, copy: int) -> str:
        cells = np.array([*"#.", *LETTERS])[self.cells[copy]]
        row, column = self.place[copy] + 1
        cells[row, column] = agent_letter(self.heading(copy))
        return "\n".join(map("".join, cells)) + f"\ntarget {LETTERS[self.target[copy]]}"


class MazeNavigation(MazeNavigationEasy):
    """The actions are 0: forward, 1: turn left, 2: turn right. The view is turned, so that the agent faces its first
    row."""

    def __init__(self, copies: int, max_steps: int = 200, size: int = 9, objects: int = 8):
        super().__init__(copies, max_steps, size, objects)
        self.action_space = spaces.Discrete(3)
        self.direction = np.zeros(copies, dtype=np.int64)

    def begin(self, copy: int, draw: np.random.Generator) -> None:
        super().begin(copy, draw)
        self.direction[copy] = draw.integers(len(MOVES))

    def act(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.direction = (self.direction + np.array([0, -1, 1])[actions]) % len(MOVES)
        self.move(np.where((actions == 0)[:, None], MOVES[self.direction], 0))
        return self.reward()

    def observe(self) -> np.ndarray:
        return self.see(TURNED_VIEWS[self.direction])

    def best_action(self, copy: int) -> int:
        way, (row, column), direction = self.way(copy), self.place[copy], self.direction[copy]
        down, right = MOVES[direction]
        states = {1: (row, column, (direction - 1) % 4), 2: (row, column, (direction + 1) % 4)}
        if (row + down, column + right) in around(self.free(copy), row, column):
            states[0] = (row + down, column + right, direction)
        return min(sorted(states), key=lambda action: way[states[action]])

    def search(self, copy: int, goal: tuple[int, int]) -> np.ndarray:
        free = self.free(copy)

        def before(state):
            row, column, direction = state
            yield from ((row, column, (direction + turn) % 4) for turn in (-1, 1))
            down, right = MOVES[direction]
            if (behind := (row - down, column - right)) in around(free, row, column) and free[behind]:
                yield (*behind, direction)

        return distances((*free.shape, 4), [(*goal, direction) for direction in range(4)], before)

    def heading(self, copy: int) -> int:
        return int(self.direction[copy])


def turned(view: np.ndarray, times: int) -> np.ndarray:
    """Offsets [9, 2] after ``times`` right turns."""
    for _ in range(times):
        view = np.stack([view[:, 1], -view[:, 0]], 1)
    return view


TURNED_VIEWS = np.stack([turned(VIEW, direction) for direction in range(4)])
