"""What every environment of gymnasium's gets around it: an end, random numbers of its own, and an info to be joined."""

import copy
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager

import gymnasium
import numpy as np
from numpy.random import mtrand

logger = logging.getLogger(__name__)

LONGEST = 10_000  # steps of an episode whose limit is not known
SUCCESS = ("is_success", "success")  # the names in use, in the info of a step


def limit_of(env: gymnasium.Env) -> int | None:
    """Steps after which gymnasium cuts off an episode. None is not known: MiniGrid and POPGym count inside."""
    limit = env.spec.max_episode_steps if env.spec else None
    return limit if limit is not None and limit > 0 else None  # -1 takes the limit away


class Guard(gymnasium.Wrapper):
    """Cuts off an episode after LONGEST steps, since it might never end."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self.name = env.spec.id if env.spec else type(env).__name__

    def reset(self, **options):
        self.steps = 0
        return super().reset(**options)

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        self.steps += 1
        if self.steps >= LONGEST and not (terminated or truncated):
            logger.warning(
                f"--environment {self.name}: an episode was cut off after {LONGEST} steps; give it a limit, for example"
                " --environment-settings '{\"max_episode_steps\": 1000}'"
            )
            truncated = True
        return seen, reward, terminated, truncated, info


class OwnDraws(gymnasium.Wrapper):
    """Gives an environment global random generators of its own: numpy's always, and Python's in resets. Some of POPGym
    shuffle their cards, and make their mazes, with them: their episodes would depend on how many environments a process
    has. Python's generator takes long to change, so the actor only warns of an environment that uses it in a step."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self.of_python: tuple | None = None  # its state; none before the first reset
        self.of_numpy = np.random.MT19937()

    def reset(self, *, seed=None, options=None):
        theirs = random.getstate()
        try:
            with bits_of_numpy(self.of_numpy):
                if seed is not None:
                    random.seed(seed)
                    np.random.seed(seed % 2**32)
                elif self.of_python is not None:
                    random.setstate(self.of_python)
                return super().reset(seed=seed, options=options)
        finally:
            self.of_python = random.getstate()
            random.setstate(theirs)

    def step(self, action):
        with bits_of_numpy(self.of_numpy):
            return super().step(action)


@contextmanager
def bits_of_numpy(bits: np.random.MT19937) -> Iterator[None]:
    """A context in which numpy's global functions draw from ``bits``."""
    theirs = mtrand.get_bit_generator()
    mtrand.set_bit_generator(bits)
    try:
        yield
    finally:
        mtrand.set_bit_generator(theirs)


class Reported(gymnasium.Wrapper):
    """Of the info, passes on whether an episode was a success: gymnasium cannot join entries of other shapes or types.
    The last observation is a copy, since an environment may write the next episode's first one into its array."""

    def reset(self, **options):
        seen, info = super().reset(**options)
        return seen, told(info)

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            seen = copy.deepcopy(seen)
        return seen, reward, terminated, truncated, told(info)


def told(info: dict) -> dict:
    return {name: info[name] for name in SUCCESS if name in info}


def wrapped(env: gymnasium.Env) -> gymnasium.Env:
    return Reported(OwnDraws(env if limit_of(env) else Guard(env)))
