"""Acting in N environments."""

import json
import logging
import math
import random
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from traceback import walk_tb
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array

import fairseq_plugins.agents.environments  # noqa: F401  (registers them)
from fairseq_plugins.agents.distributions import distribution_of
from fairseq_plugins.agents.observations import Observations, Observer
from fairseq_plugins.agents.rollout import CutOff, Learning, Rollout, Steps, memory_of_rows
from fairseq_plugins.agents.wrappers import LONGEST, SUCCESS, limit_of, wrapped
from fairseq_plugins.errors import UserError, one_line
from fairseq_plugins.options.withheld import refuse_withheld

logger = logging.getLogger(__name__)

OURS = "fairseq_plugins/"
PACKAGES = {"MiniGrid": "minigrid", "BabyAI": "minigrid", "popgym": "popgym", "ALE": "ale_py"}  # by the begin of a name


def make_environments(name: str, copies: int, settings: str = "", **options: Any) -> Any:
    """A vector environment of gymnasium, whose ``copies`` begin the next episode in the step that ends one.

    Args:
        name: as gymnasium knows it
        settings: JSON of arguments for it

    Raises:
        UserError: gymnasium cannot make it, or its actions or observations are none that an agent can have; or it is
            named by a checkpoint, and by nobody else
    """
    refuse_withheld(name)
    refuse_withheld(settings)
    ours = name.startswith(OURS)
    given = f" with --environment-settings '{settings}'" if settings else ""
    try:
        arguments = json.loads(settings or "{}")
        if not isinstance(arguments, dict):
            raise ValueError("the settings are no JSON object such as '{\"size\": 5}'")
        mode = {"autoreset_mode": AutoresetMode.SAME_STEP}
        sync = {"vectorization_mode": "sync", "vector_kwargs": mode, "wrappers": [wrapped]}
        theirs: dict[str, Any] = {} if ours else sync
        made: Any = gymnasium.make_vec(name, copies, **theirs, **arguments, **options)
    except (Exception, SystemExit) as error:  # whatever the environment raises; its arguments are the user's
        raise UserError(f"--environment {name}{given} cannot be made: {one_line(error)}{advice(name)}") from error
    distribution_of(made.single_action_space)
    Observer(made.single_observation_space)
    if not ours:
        close_quietly(made, name)
    return made


def advice(name: str) -> str:
    """Which package registers an environment of this name, if that is known and is what is missing."""
    module, _, registered = name.rpartition(":")
    package = PACKAGES.get(re.split("[-/]", registered)[0])
    if package is None or package in sys.modules:  # then it has registered all that it has
        return ""
    named = "" if module else f"; the package {package} registers it: --environment {package}:{registered}"
    return named + ("" if find_spec(package) else f"; pip install {package}")


def described(environments: Any) -> str:
    """Which vector environment it is, and what is known of its limit of steps."""
    vector = f"{environments.num_envs} environments in {type(environments).__module__}.{type(environments).__name__}"
    if hasattr(environments, "world"):
        return f"{vector}, at most {environments.world.max_steps} steps an episode"
    limit = limit_of(environments.envs[0])
    known = f"at most {limit} steps an episode" if limit else f"limit of steps unknown, cut off after {LONGEST}"
    return f"{vector}, one after the other, {known}"


def close_quietly(environments: Any, name: str) -> None:
    """An environment that cannot be closed costs no result, and no traceback where Python forgets it."""
    close = environments.close

    def close_or_warn(**options) -> None:
        try:
            close(**options)
        except (Exception, SystemExit) as error:
            environments.closed = True
            logger.warning(f"--environment {name} could not be closed: {one_line(error)}")

    environments.close = close_or_warn


RETURNED = {"reset": "(observation, info)", "step": "(observation, reward, terminated, truncated, info)"}


@contextmanager
def faults_of(environments: Any, method: str) -> Iterator[None]:
    """Whatever an environment of somebody else's raises is an error of one sentence.

    Raises:
        UserError: it raised something, needs another package, or returned an observation that is not in its
            observation_space
    """
    try:
        yield
    except UserError:
        raise
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(f"--environment {environments.spec.id} needs another package: {one_line(error)}") from error
    except (Exception, SystemExit) as error:
        if hasattr(environments, "world"):  # a fault of ours
            raise
        where = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
        wrong = (
            f"does not return observations of its observation_space {environments.single_observation_space} in"
            if any(name.endswith("space_utils.py") for name in where)  # where gymnasium joins them
            else "failed in"
        )
        raise UserError(
            f"--environment {environments.spec.id} {wrong} {method}(), which has to return {RETURNED[method]}"
            f" ({type(error).__name__}: {one_line(error)}); correct it, or choose another."
        ) from error


def seed_of(seed: int, number: int, *later: int) -> int:
    """The seed of an environment, given its number among those of all ranks, and the steps before if a training is
    resumed. With seed + number, trainings with the seeds 1 and 2 would share almost all of their environments."""
    return int(np.random.SeedSequence((seed, number, *later)).generate_state(1)[0])


def as_steps(seen: Observations, previous: np.ndarray, begins: np.ndarray, device="cpu") -> Steps:
    return Steps(*(torch.from_numpy(value).to(device) for value in (*seen, previous, begins)))


def joined(cut: list[tuple[torch.Tensor, torch.Tensor, Steps]], device) -> CutOff | None:
    """The steps, environments and last states of all steps of a block."""
    if not cut:
        return None
    steps, environments, lasts = zip(*cut)
    last = Steps(*(torch.cat(values).to(device) for values in zip(*lasts)))
    return CutOff(torch.cat(environments).to(device), torch.cat(steps).to(device), last)


class Episode(NamedTuple):
    """One that has ended. Its success is 1, 0, or something between; nan if the environment does not tell it."""

    reward: float
    length: int
    success: float = math.nan


def successes(final_info: dict, copies: int) -> np.ndarray:
    """What the last steps of episodes told [N]."""
    told = np.full(copies, np.nan)
    for name in SUCCESS:
        if name in final_info:
            known = final_info[f"_{name}"]
            told[known] = final_info[name][known]
    return told


class Actor:
    """Agents in N environments, their episodes so far, and their memory.

    Args:
        environments: N of them, as ``make_environments`` makes them
        seed: of the environments and of the actions
        first: number of the first environment among those of all ranks
        total: number of environments of all ranks
        bootstrap: keep the last states of episodes that a time limit cuts off
    """

    def __init__(self, environments: Any, seed: int, first: int = 0, total: int | None = None, bootstrap: bool = False):
        self.environments, self.seed, self.bootstrap = environments, seed, bootstrap
        self.copies = environments.num_envs
        self.mine, self.total = slice(first, first + self.copies), total or self.copies
        self.space = environments.single_observation_space
        self.observe = Observer(self.space)
        self.sizes = np.array(self.observe.layout.sizes, dtype=np.int64)
        self.distribution = distribution_of(environments.single_action_space)
        self.step_number = 0
        self.draws_from_python = False  # as far as is known
        self.memory: Any = None
        self.learning: Learning | None = None  # from the last block
        self.begin_episodes()
        kind = np.int64 if self.distribution.sizes else np.float32
        self.previous = np.zeros((self.copies, *self.distribution.shape), dtype=kind)
        self.begins = np.ones(self.copies, dtype=bool)
        self.rewards, self.lengths = np.zeros(self.copies), np.zeros(self.copies, dtype=np.int64)  # of running episodes
        self.finished: list[Episode] = []  # since they were last asked for

    def begin_episodes(self, *later: int) -> None:
        """New episodes in all environments; ``later`` as in ``seed_of``."""
        seeds = [seed_of(self.seed, number, *later) for number in range(self.mine.start, self.mine.stop)]
        with faults_of(self.environments, "reset"):
            seen, _ = self.environments.reset(seed=seeds)
            self.seen = self.see(seen)

    def roll(self, agent, steps: int) -> Rollout:
        """Act for ``steps`` steps.

        Args:
            agent: an ``Agent`` (model.py)
        """
        memory = self.memory
        if memory is not None and self.begins.any():
            fresh = torch.as_tensor(self.begins, device=agent.device)
            memory = memory_of_rows(memory, torch.arange(self.copies, device=agent.device), fresh)
        acting = agent.start_acting(memory, self.copies, steps + 1)
        seen, acted, cut = [self.now(agent.device)], [], []
        for step in range(steps):
            actions = self.choose(acting.logits(seen[-1]))
            acted.append((actions, *self.step(actions)))
            seen.append(self.now(agent.device))
            cut += [(torch.full_like(rows, step), rows, last) for rows, last in self.cut_off]
        acting.read_last(seen[-1])
        all_seen = Steps(*(torch.stack(values, 1) for values in zip(*seen)))
        taken, rewards, ends = (torch.from_numpy(np.stack(values, 1)).to(agent.device) for values in zip(*acted))
        return Rollout(all_seen, taken, rewards, ends, memory, acting.recorded, joined(cut, agent.device))

    def now(self, device) -> Steps:
        """The present observations, [N, ...]."""
        return as_steps(self.seen, self.previous, self.begins, device)

    def choose(self, logits: torch.Tensor) -> np.ndarray:
        """Draw actions from the policy's parameters [N, P]. A draw depends on the seed, the step and the number of the
        environment only."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, self.step_number]))
        draws = generator.random((self.total, math.prod(self.distribution.shape)))[self.mine]
        return self.distribution.sample(logits, draws)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Do actions [N, ...]. Returns rewards and whether an episode ended, both [N]."""
        with faults_of(self.environments, "step"), self.python_draws():
            seen, rewards, terminated, truncated, info = self.environments.step(self.distribution.done(actions))
            self.seen = self.see(seen)
            told = successes(info.get("final_info", {}), self.copies)
            previous = self.distribution.seen(actions)
            rows = np.flatnonzero(truncated & ~terminated & self.bootstrap)
            self.cut_off = [self.last(rows, info["final_obs"][rows], previous)] if len(rows) else []
        if not np.isfinite(rewards).all():
            wrong = rewards[~np.isfinite(rewards)][0]
            raise UserError(
                f"--environment {self.environments.spec.id} gave the reward {wrong}; correct it, or choose another."
            )
        ends = terminated | truncated
        self.step_number += 1
        self.rewards += rewards
        self.lengths += 1
        self.finished += map(Episode, self.rewards[ends].tolist(), self.lengths[ends].tolist(), told[ends].tolist())
        self.rewards[ends], self.lengths[ends] = 0, 0
        self.previous, self.begins = previous, ends
        self.previous[ends] = 0
        return np.asarray(rewards, dtype=np.float64), ends

    @contextmanager
    def python_draws(self) -> Iterator[None]:
        """Says once that an environment draws from Python's global generator in its steps."""
        before = None if self.draws_from_python or hasattr(self.environments, "world") else random.getstate()
        yield
        if before is not None and random.getstate() != before:
            self.draws_from_python = True
            logger.warning(
                f"--environment {self.environments.spec.id} draws from Python's random in step(), so its episodes"
                " depend on the number of environments; let it draw from self.np_random or numpy.random"
            )

    def last(self, rows: np.ndarray, observations, previous: np.ndarray) -> tuple[torch.Tensor, Steps]:
        """The numbers of the environments in ``rows``, and their last states."""
        empty: Any = create_empty_array(self.space, len(rows))
        batch = concatenate(self.space, observations, empty)
        return torch.from_numpy(rows), as_steps(self.see(batch), previous[rows], np.zeros(len(rows), dtype=bool))

    def see(self, seen) -> Observations:
        """The observations that the environments returned.

        Raises:
            UserError: there is one that their observation_space does not have, or that is not a number
        """
        found = self.observe(seen)
        whole, numbers = found
        wrong = (whole < 0) | (whole >= self.sizes)
        if wrong.any() or not np.isfinite(numbers).all():
            value = whole[wrong][0] if wrong.any() else numbers[~np.isfinite(numbers)][0]
            raise UserError(
                f"--environment {self.environments.spec.id} gave an observation that its observation_space"
                f" {self.space} does not have ({value}); correct it, or choose another."
            )
        return found

    def take_finished(self) -> list[Episode]:
        finished, self.finished = self.finished, []
        return finished
