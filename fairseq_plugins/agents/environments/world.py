"""The base of the environments: many copies of a grid, stepped at once.

N copies. Each copy has a random generator of its own, so it does the same alone and among others.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from fairseq_plugins.agents.environments.pictures import AGENT, AGENTS, SCALE, enlarge

NOT_BEGUN = -1  # the steps of a copy that was never reset
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # up, right, down, left


def check_whole(name: str, value, least: int, most: int = 10**9) -> None:
    """Raises ValueError for a setting that is not a whole number from ``least`` to ``most``."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise ValueError(f"{name} {value!r} is not a whole number from {least} to {most}.")


class Scene(NamedTuple):
    """A copy as it is drawn.

    Attributes:
        cells: [rows, columns], indices of the world's colours and letters
        row, column: of the agent
        heading: the direction that it faces, as an index of MOVES; None if it faces none
    """

    cells: np.ndarray
    row: int
    column: int
    heading: int | None = None


class World(ABC):
    """N copies of an environment.

    An episode ends with ``terminated`` when it is decided, and with ``truncated`` after ``max_steps`` steps.

    Attributes:
        observation_space: of one copy; an observation is a row of whole numbers
        action_space: of one copy
        max_steps: steps of an episode
        colours, letters: of the cells of a scene
    """

    observation_space: spaces.MultiDiscrete
    action_space: spaces.Discrete
    colours: Sequence
    letters: str

    def __init__(self, copies: int, max_steps: int):
        check_whole("num_envs", copies, 1)
        check_whole("max_steps", max_steps, 1)
        self.copies, self.max_steps = copies, max_steps
        self.draws: list[np.random.Generator] = [np.random.default_rng() for _ in range(copies)]
        self.steps = np.full(copies, NOT_BEGUN)

    def seed(self, seeds: Sequence[int | None]) -> None:
        """A copy whose seed is None draws on from where it is."""
        for copy, seed in enumerate(seeds):
            if seed is not None:
                self.draws[copy] = np.random.default_rng(seed)

    def reset(self, copies: np.ndarray) -> None:
        """Begin new episodes in these copies, given by their numbers."""
        self.steps[copies] = 0
        for copy in copies:
            self.begin(int(copy), self.draws[copy])

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One action [N] in each copy. Returns rewards, terminated and truncated, each [N].

        Raises:
            ValueError: these are not N actions
            ResetNeeded: a copy was never reset
        """
        if (self.steps == NOT_BEGUN).any():
            raise ResetNeeded("an environment was stepped before its first reset; call reset.")
        actions, number = np.asarray(actions), int(self.action_space.n)
        whole = actions.shape == (self.copies,) and actions.dtype.kind in "iu"
        if not whole or not ((actions >= 0) & (actions < number)).all():
            raise ValueError(f"the actions {actions} are not {self.copies} whole numbers from 0 to {number - 1}.")
        self.steps += 1
        rewards, terminated = self.act(actions)
        return rewards, terminated, (self.steps >= self.max_steps) & ~terminated

    @abstractmethod
    def begin(self, copy: int, draw: np.random.Generator) -> None:
        """Draw a new episode of one copy."""

    @abstractmethod
    def act(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Do one action [N] in each copy. Returns rewards [N] and whether an episode is decided [N]."""

    @abstractmethod
    def observe(self) -> np.ndarray:
        """The observations of the agents [N, numbers of observation_space]."""

    @abstractmethod
    def best_actions(self) -> np.ndarray:
        """Actions [N] of an agent that knows everything, on a shortest way to the next reward."""

    @abstractmethod
    def scene(self, copy: int) -> Scene: ...

    def render(self, mode: str | None, copy: int):
        """A copy in one of gymnasium's render modes."""
        return {"rgb_array": self.picture, "ansi": self.text}[mode](copy) if mode else None

    def picture(self, copy: int) -> np.ndarray:
        """A copy as a picture [height, width, 3], from 0 to 255."""
        cells, row, column, heading = self.scene(copy)
        picture = enlarge(np.asarray(self.colours)[cells])
        _, shape = AGENTS[heading]
        picture[row * SCALE : (row + 1) * SCALE, column * SCALE : (column + 1) * SCALE][shape] = AGENT
        return picture

    def text(self, copy: int) -> str:
        """A copy as text, a letter for each cell."""
        cells, row, column, heading = self.scene(copy)
        letters = np.array([*self.letters])[cells]
        letters[row, column], _ = AGENTS[heading]
        return "\n".join(map("".join, letters))

    def state(self) -> dict:
        """Everything that changes, for ``restore``."""
        arrays = {name: value.copy() for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return {"arrays": arrays, "draws": [draw.bit_generator.state for draw in self.draws]}

    def restore(self, state: dict) -> None:
        for name, value in state["arrays"].items():
            setattr(self, name, value.copy())
        for draw, value in zip(self.draws, state["draws"], strict=True):
            draw.bit_generator.state = value
