"""A world as environments of gymnasium: one copy, or many copies that are stepped at once in one process."""

from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from fairseq_plugins.agents.environments.world import World, check_whole

METADATA: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}


def build_world(where: str, copies: int, **settings) -> World:
    """The world of a class, given as package.module:Class."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)(copies, **settings)


class SingleEnvironment(gymnasium.Env):
    """
    Args:
        world: package.module:Class of a World
        settings: of that class
    """

    metadata = METADATA

    def __init__(self, world: str, render_mode: str | None = None, **settings):
        self.world = build_world(world, 1, **settings)
        self.observation_space, self.action_space = self.world.observation_space, self.world.action_space
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        self.world.seed([seed])
        self.world.reset(np.array([0]))
        return self.world.observe()[0], {}

    def step(self, action):
        rewards, terminated, truncated = self.world.step(np.array([action]))
        return self.world.observe()[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self):
        return self.world.render(self.render_mode, 0)


class VectorEnvironment(VectorEnv):
    """A copy begins its next episode in the step that ends an episode: the observation is then the new episode's first,
    and ``final_obs`` has the old one's last, as gymnasium's ``SyncVectorEnv`` gives it.

    Args:
        num_envs: number of copies
        world: package.module:Class of a World
        max_episode_steps: as in ``gymnasium.make``, episodes end after so many steps if not after ``max_steps``
        settings: of that class
    """

    metadata = {**METADATA, "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        num_envs: int,
        world: str,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        **settings,
    ):
        self.world = build_world(world, num_envs, **settings)
        if max_episode_steps is not None:
            check_whole("max_episode_steps", max_episode_steps, 1)
            self.world.max_steps = min(self.world.max_steps, max_episode_steps)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space, self.single_action_space = self.world.observation_space, self.world.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | list[int | None] | None = None, options: dict | None = None):
        """As everywhere in gymnasium, copy i has the seed ``seed`` + i, and only copies of a ``reset_mask`` [N] among
        the options are reset if there is one.

        Raises:
            ValueError: these are not N seeds, or the mask is not N truth values, one of them true
        """
        seeds: list[int | None] = [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            seeds = [int(seed) + i for i in range(self.num_envs)]
        elif seed is not None:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds were given for {self.num_envs} environments.")
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool)))
        if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise ValueError(f"reset_mask {mask} is not {self.num_envs} truth values, one of them true.")
        self.world.seed([seed if chosen else None for seed, chosen in zip(seeds, mask)])
        self.world.reset(np.flatnonzero(mask))
        return self.world.observe(), {}

    def step(self, actions):
        rewards, terminated, truncated = self.world.step(actions)
        observations = self.world.observe()
        info: dict[str, Any] = {}
        ended = np.flatnonzero(terminated | truncated)
        for copy in ended.tolist():
            info = self._add_info(info, {"final_obs": observations[copy], "final_info": {}}, copy)
        if len(ended):
            self.world.reset(ended)
            observations = self.world.observe()
        return observations, rewards, terminated, truncated, info

    def render(self):
        return self.render_mode and tuple(self.world.render(self.render_mode, copy) for copy in range(self.num_envs))
