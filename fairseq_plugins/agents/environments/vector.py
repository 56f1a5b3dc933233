"""Many copies of an environment, stepped at once in one process."""

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from fairseq_plugins.agents.environments.single import RENDER_MODES, build_world
from fairseq_plugins.agents.environments.world import check_whole


class VectorEnvironment(VectorEnv):
    """A copy begins its next episode in the step that ends an episode: the observation is then the new episode's first,
    and ``final_obs`` has the old one's last, as gymnasium's ``SyncVectorEnv`` gives it.

    Args:
        num_envs: number of copies
        world: package.module:Class of a World
        max_episode_steps: as in ``gymnasium.make``, episodes end after so many steps if not after ``max_steps``
        settings: of that class
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 8, "autoreset_mode": AutoresetMode.SAME_STEP}

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
        self.single_observation_space = self.world.observation_space
        self.single_action_space = self.world.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | list[int | None] | None = None, options: dict | None = None):
        """As everywhere in gymnasium, copy i has the seed ``seed`` + i, and only copies of a ``reset_mask`` [N] among
        the options are reset if there is one.

        Raises:
            ValueError: these are not N seeds, or the mask is not N truth values, one of them true
        """
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
            seeds = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = [None] * self.num_envs if seed is None else list(seed)
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
        observations, info = self.world.observe(), {}
        ended = np.flatnonzero(terminated | truncated)
        for copy in ended:
            info = self._add_info(info, {"final_obs": observations[copy], "final_info": {}}, copy)
        if len(ended):
            self.world.reset(ended)
            observations = self.world.observe()
        return observations, rewards, terminated, truncated, info

    def render(self):
        draw = {"rgb_array": self.world.picture, "ansi": self.world.text}.get(self.render_mode or "")
        return tuple(map(draw, range(self.num_envs))) if draw else None
