"""What every environment of gymnasium's gets around it: an end, and random numbers of its own."""

import logging
import random

import gymnasium
import numpy as np

logger = logging.getLogger(__name__)

LONGEST = 10_000  # steps of an episode whose limit is not known


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
    """Resets an environment with global random generators of its own. Some of POPGym shuffle their cards, and make
    their mazes, with those of Python and numpy: their episodes would depend on how many environments a process has."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self.draws: tuple | None = None  # none before the first reset

    def reset(self, *, seed=None, options=None):
        theirs = random.getstate(), np.random.get_state()
        try:
            if seed is not None:
                random.seed(seed)
                np.random.seed(seed % 2**32)
            elif self.draws is not None:
                set_draws(self.draws)
            return super().reset(seed=seed, options=options)
        finally:
            self.draws = random.getstate(), np.random.get_state()
            set_draws(theirs)


def set_draws(states: tuple) -> None:
    of_python, of_numpy = states
    random.setstate(of_python)
    np.random.set_state(of_numpy)


def wrapped(env: gymnasium.Env) -> gymnasium.Env:
    return OwnDraws(env if limit_of(env) else Guard(env))
