"""One environment: a world of one copy."""

from importlib import import_module

import gymnasium
import numpy as np

from fairseq_plugins.agents.environments.world import World

RENDER_MODES = ["rgb_array", "ansi"]


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

    metadata = {"render_modes": RENDER_MODES, "render_fps": 8}

    def __init__(self, world: str, render_mode: str | None = None, **settings):
        self.world = build_world(world, 1, **settings)
        self.observation_space, self.action_space = self.world.observation_space, self.world.action_space
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        if seed is not None:
            self.world.seed([seed])
        self.world.reset(np.array([0]))
        return self.world.observe()[0], {}

    def step(self, action):
        rewards, terminated, truncated = self.world.step(np.array([action]))
        return self.world.observe()[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self):
        if self.render_mode == "rgb_array":
            return self.world.picture(0)
        return self.world.text(0) if self.render_mode == "ansi" else None
