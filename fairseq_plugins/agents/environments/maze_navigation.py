"""Maze Navigation (Fan et al., 2020, sections 4.2.2, 6.1 and 7.2): find coloured objects in a random maze.

One colour is the target. Reaching its object gives a reward of 1, and another colour becomes the target. The agent sees
the 3 x 3 cells around it, and the target's colour. In Maze Navigation it goes forward or turns, and sees the cells as
it faces them. In the easy version it goes up, right, down or left.

Our choices: the maze fills the whole square, with walls around it; objects do not stand in the way; the new target is
another colour than the old one; the agent starts on a free cell without an object.
"""

import numpy as np
from gymnasium import spaces

from fairseq_plugins.agents.environments.kruskal import maze
from fairseq_plugins.agents.environments.pictures import COLOURS, FREE, LETTERS, WALL_COLOUR, enlarge
from fairseq_plugins.agents.environments.world import MOVES, Scene, World, check_whole

WALL, EMPTY, OBJECT = 0, 1, 2  # the content of a cell; objects count on from here, one number a colour
VIEW = np.array([(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1)])
# offsets [4, 9, 2] of the view of an agent that faces a direction of MOVES: each is a right turn of the one before
VIEWS = np.stack([VIEW, VIEW[:, ::-1] * (1, -1), -VIEW, VIEW[:, ::-1] * (-1, 1)])
FAR = np.iinfo(np.int32).max - 1  # steps to a target that cannot be reached


class MazeNavigationEasy(World):
    """The actions are 0: up, 1: right, 2: down, 3: left. An observation has the nine cells of the view, row by row
    (0: wall, 1: free, 2 and more: an object), and the target's colour.

    Args:
        size: cells to a side, an odd number
        objects: number of objects, each of another colour
    """

    actions = len(MOVES)
    headings = 1  # directions that the agent can face
    colours = [WALL_COLOUR, FREE, *COLOURS]
    letters = f"#.{LETTERS}"

    def __init__(self, copies: int, max_steps: int = 200, size: int = 9, objects: int = 8):
        super().__init__(copies, max_steps)
        check_whole("size", size, 3, 999)
        if size % 2 == 0:
            raise ValueError(f"size {size} is not an odd number.")
        rooms = (size // 2 + 1) ** 2  # an object in each of them would leave none to the agent
        check_whole("objects", objects, 2, min(len(COLOURS), rooms - 1))
        self.size, self.objects = size, objects
        self.observation_space = spaces.MultiDiscrete([OBJECT + objects] * len(VIEW) + [objects])
        self.action_space = spaces.Discrete(self.actions)
        self.cells = np.full((copies, size + 2, size + 2), WALL, dtype=np.int64)  # with walls around the maze
        self.places = np.zeros((copies, objects, 2), dtype=np.int64)  # of the objects, in the maze
        self.place = np.zeros((copies, 2), dtype=np.int64)  # of the agent
        self.direction = np.zeros(copies, dtype=np.int64)  # that the agent faces, an index of MOVES
        self.target = np.zeros(copies, dtype=np.int64)
        self.ways: dict[tuple[int, int], np.ndarray] = {}  # steps to a copy's target, for best_actions

    def begin(self, copy: int, draw: np.random.Generator) -> None:
        free = maze(self.size, draw)
        self.cells[copy, 1:-1, 1:-1] = np.where(free, EMPTY, WALL)
        places = draw.permutation(np.argwhere(free))
        self.places[copy], self.place[copy] = places[: self.objects], places[self.objects]
        for colour, (row, column) in enumerate(self.places[copy]):
            self.cells[copy, row + 1, column + 1] = OBJECT + colour
        self.target[copy] = draw.integers(self.objects)
        self.direction[copy] = draw.integers(self.headings)
        for colour in range(self.objects):
            self.ways.pop((copy, colour), None)

    def restore(self, state: dict) -> None:
        super().restore(state)
        self.ways = {}

    def act(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        every = np.arange(self.copies)
        self.place, self.direction = self.after(every, self.place, self.direction, actions)
        reached = (self.place == self.places[every, self.target]).all(1)
        for copy in np.nonzero(reached)[0]:
            self.target[copy] = (self.target[copy] + 1 + self.draws[copy].integers(self.objects - 1)) % self.objects
        return reached.astype(np.float64), np.zeros(self.copies, dtype=bool)

    def after(self, copies, places: np.ndarray, directions: np.ndarray, actions) -> tuple[np.ndarray, np.ndarray]:
        """Places [K, 2] and directions [K] after actions in copies, K or one of each. Walls stop an agent."""
        directions, moves = self.go(directions, actions)
        there = places + moves
        free = self.cells[copies, there[:, 0] + 1, there[:, 1] + 1] != WALL
        return np.where(free[:, None], there, places), directions

    @staticmethod
    def go(directions: np.ndarray, actions) -> tuple[np.ndarray, np.ndarray]:
        """Directions after actions, and moves."""
        return directions, MOVES[actions]

    def observe(self) -> np.ndarray:
        seen = self.place[:, None] + 1 + VIEWS[self.direction]
        cells = self.cells[np.arange(self.copies)[:, None], seen[..., 0], seen[..., 1]]
        return np.concatenate([cells, self.target[:, None]], 1)

    def best_actions(self) -> np.ndarray:
        now = np.arange(self.copies), self.place, self.direction
        following = np.stack([self.number(*self.after(*now, action)) for action in range(self.actions)], 1)
        return np.array([self.way(copy)[numbers].argmin() for copy, numbers in enumerate(following)])

    def way(self, copy: int) -> np.ndarray:
        """Steps from each state to the target; ``number`` numbers the states."""
        key = copy, int(self.target[copy])
        if key not in self.ways:
            self.ways[key] = self.search(copy, self.places[key])
        return self.ways[key]

    def search(self, copy: int, goal: np.ndarray) -> np.ndarray:
        """Steps from each state to a place, by breadth-first search."""
        rows, columns, directions = np.indices((self.size, self.size, self.headings)).reshape(3, -1)
        places = np.stack([rows, columns], 1)
        following = [self.number(*self.after(copy, places, directions, action)) for action in range(self.actions)]
        steps = np.where((places == goal).all(1), 0, FAR)
        while True:
            fewer = np.minimum(steps, steps[following].min(0) + 1)
            if (fewer == steps).all():
                return steps
            steps = fewer

    def number(self, places: np.ndarray, directions: np.ndarray) -> np.ndarray:
        return (places[:, 0] * self.size + places[:, 1]) * self.headings + directions

    def scene(self, copy: int) -> Scene:
        row, column = self.place[copy] + 1
        return Scene(self.cells[copy], row, column, int(self.direction[copy]) if self.headings > 1 else None)

    def picture(self, copy: int) -> np.ndarray:
        below = np.full((1, self.size + 2, 3), FREE)
        below[0, 0] = COLOURS[self.target[copy]]
        return np.concatenate([super().picture(copy), enlarge(below)])

    def text(self, copy: int) -> str:
        return f"{super().text(copy)}\ntarget {LETTERS[self.target[copy]]}"


class MazeNavigation(MazeNavigationEasy):
    """The actions are 0: forward, 1: turn left, 2: turn right. The view is turned, so that the agent faces its first
    row."""

    actions = 3
    headings = len(MOVES)

    @staticmethod
    def go(directions: np.ndarray, actions) -> tuple[np.ndarray, np.ndarray]:
        directions = (directions + np.array([0, -1, 1])[actions]) % len(MOVES)
        return directions, MOVES[directions] * np.equal(actions, 0)[..., None]
