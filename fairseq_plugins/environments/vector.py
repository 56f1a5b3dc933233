"""Many copies of an environment, stepped at once in one process."""

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from fairseq_plugins.environments.single import RENDER_MODES, build_world


class VectorEnvironment(VectorEnv):
    """A copy begins its next episode in the step that ends an episode: the observation is then the new episode's first,
    and ``final_obs`` has the old one's last.

    Args:
        num_envs: number of copies
        world: package.module:Class of a World
        settings: of that class
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 8, "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, num_envs: int, world: str, render_mode: str | None = None, **settings):
        self.world = build_world(world, num_envs, **settings)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = self.world.observation_space
        self.single_action_space = self.world.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | list[int | None] | None = None, options: dict | None = None):
        """As everywhere in gymnasium, copy i has the seed ``seed`` + i."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        if seed is not None:
            self.world.seed([seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed)
        self.world.reset(np.arange(self.num_envs))
        return self.world.observe(), {}

    def step(self, actions):
        rewards, terminated, truncated = self.world.step(np.asarray(actions))
        observations, info = self.world.observe(), {}
        (ended,) = np.nonzero(terminated | truncated)
        if len(ended):
            info = {"final_obs": observations.copy(), "_final_obs": terminated | truncated}
            self.world.reset(ended)
            observations = self.world.observe()
        return observations, rewards, terminated, truncated, info

    def render(self):
        draw = {"rgb_array": self.world.picture, "ansi": self.world.text}.get(self.render_mode or "")
        return tuple(map(draw, range(self.num_envs))) if draw else None
