"""An environment of the user's that does something wrong is one sentence, in training and in watch."""

import re

import gymnasium
import numpy as np
import pytest

from fairseq_plugins.agents.actor import Actor, make_environments
from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import watch

ROW, NAN = np.zeros(2, np.float32), float("nan")


def raises(error):
    raise error


# the fault of an environment -> the message
IN_RESET = {
    lambda: raises(RuntimeError("out of\nluck")): r"failed in reset\(\).*RuntimeError: out of luck",
    lambda: raises(SystemExit(3)): r"failed in reset\(\).*SystemExit: 3",
    lambda: ROW: r"failed in reset\(\), which has to return \(observation, info\)",
    lambda: (np.zeros(3, np.float32), {}): r"observations of its observation_space Box.* in reset\(\)",
    lambda: (None, {}): r"observations of its observation_space Box.* in reset\(\)",
    lambda: (ROW * NAN, {}): r"an observation that its observation_space Box.* does not have \(nan\)",
}
IN_STEP = {
    lambda: raises(KeyError("x")): r"failed in step\(\).*KeyError: 'x'",
    lambda: raises(SystemExit("bye")): r"failed in step\(\).*SystemExit: bye",
    lambda: (ROW[None], 1.0, False, False, {}): r"observations of its observation_space Box.* in step\(\)",
    lambda: (ROW.astype(complex), 1.0, False, False, {}): r"observations of its observation_space Box.* in step\(\)",
    lambda: (ROW + np.inf, 1.0, False, False, {}): r"an observation that its observation_space .* have \(inf\)",
    lambda: (ROW, 1.0, True, {}): r"failed in step\(\), which has to return \(observation, reward, terminated",
    lambda: (ROW, NAN, True, False, {}): "gave the reward nan",
    lambda: (ROW, -np.inf, True, False, {}): "gave the reward -inf",
    lambda: (ROW, None, True, False, {}): "gave the reward nan",
    lambda: (ROW, "much", True, False, {}): r"failed in step\(\).*'much'",
    lambda: (ROW, ROW, True, False, {}): r"failed in step\(\)",
}
CASES = [(0, act, words) for act, words in IN_RESET.items()] + [(1, act, words) for act, words in IN_STEP.items()]


class Faulty(gymnasium.Env):
    """Episodes of one step.

    Args:
        acts: functions in place of the reset and of the step, or None
    """

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)

    def __init__(self, acts, space=None, render_mode=None):
        self.acts, self.observation_space = acts, space or self.observation_space

    def reset(self, *, seed=None, options=None):
        return (self.acts[0] or (lambda: (ROW, {})))()

    def step(self, action):
        return (self.acts[1] or (lambda: (ROW, 1.0, True, False, {})))()


@pytest.fixture
def faulty(monkeypatch):
    """The name of an environment that does so."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))

    def register(*acts, **more):
        gymnasium.register("Faulty-v0", Faulty, max_episode_steps=5, kwargs={"acts": acts, **more})
        return "Faulty-v0"

    return register


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place, act, words", CASES)
def test_what_is_wrong_is_one_sentence(faulty, place, act, words):
    name = faulty(*(act if place == each else None for each in (0, 1)))
    with pytest.raises(UserError, match=f"^--environment Faulty-v0 .*{words}.* correct it, or choose another") as said:
        Actor(make_environments(name, 2), seed=1).step(np.array([0, 1]))
    assert "\n" not in str(said.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("observation", [3, -1])
def test_a_number_that_the_space_does_not_have(faulty, observation):
    name = faulty(lambda: (observation, {}), None, space=gymnasium.spaces.Discrete(3))
    with pytest.raises(UserError, match=re.escape(f"Discrete(3) does not have ({observation})")):
        Actor(make_environments(name, 2), seed=1)


def test_one_that_ends_the_program_when_it_is_made(faulty, monkeypatch):
    monkeypatch.setattr(Faulty, "__init__", lambda self, acts: raises(SystemExit(2)))
    with pytest.raises(UserError, match="^--environment Faulty-v0 cannot be made: 2"):
        make_environments(faulty(None, None), 2)


def test_a_missing_package_is_named(faulty):
    missing = gymnasium.error.DependencyNotInstalled("pygame is missing, run `pip install pygame`")
    with pytest.raises(UserError, match="^--environment Faulty-v0 needs another package: pygame is missing, run `pip"):
        Actor(make_environments(faulty(lambda: raises(missing), None), 2), seed=1)


def watched(monkeypatch, name, *options):
    monkeypatch.setattr("sys.argv", ["watch", "--agent", "random", "--environment", name, *options])
    watch.main()


def test_watch_says_it_too(faulty, monkeypatch):
    with pytest.raises(UserError, match="--environment Faulty-v0 gave the reward nan"):
        watched(monkeypatch, faulty(None, lambda: (ROW, NAN, True, False, {})), "--episodes", "2")


def test_one_that_cannot_be_closed_costs_no_result(faulty, monkeypatch, capsys, caplog):
    monkeypatch.setattr(Faulty, "close", lambda self: raises(RuntimeError("closed twice")))
    watched(monkeypatch, faulty(None, None))
    assert "mean reward of 1 episodes: 1.000" in capsys.readouterr().out
    assert caplog.messages == ["--environment Faulty-v0 could not be closed: closed twice"]
