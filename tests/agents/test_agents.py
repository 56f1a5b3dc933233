"""Acting and learning agree, whatever ends where."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

from fairseq_plugins.agents.actor import Actor, make_environments
from fairseq_plugins.agents.criterions.a2c import A2CCriterion
from fairseq_plugins.agents.criterions.ppo import PPOCriterion
from fairseq_plugins.agents.distributions import distribution_of
from fairseq_plugins.agents.model import ARCHITECTURES, FeedbackAgent, GRUAgent, LSTMAgent, SpanTransformerAgent
from fairseq_plugins.agents.observations import layout
from fairseq_plugins.agents.rollout import Episodes
from fairseq_plugins.agents.task import ReinforcementLearningConfig, ReinforcementLearningTask

AGENTS = [FeedbackAgent, SpanTransformerAgent, LSTMAgent, GRUAgent]
COPIES, LIMIT = 3, 5
# episodes that end in the middle of blocks, at different steps; and episodes that end with every second block
ENVIRONMENTS = {"short": ("Corridor-v0", '{"length": 3}'), "aligned": ("MazeNavigation-v0", '{"max_steps": 10}')}


def build_agent(kind, environments, **changes):
    torch.manual_seed(1)
    space = environments.single_observation_space
    sizes = *layout(space), distribution_of(environments.single_action_space)
    task = SimpleNamespace(agent_sizes=lambda: sizes)
    options = getattr(kind, "__dataclass")()
    for name, value in {**ARCHITECTURES["tiny"], **changes}.items():
        if hasattr(options, name):
            setattr(options, name, value)
    agent = kind.build_model(options, task).double()
    for head in (agent.policy, agent.value):
        torch.nn.init.normal_(head.weight)
    return agent


def actor_of(name, seed=1, copies=COPIES):
    environment, settings = ENVIRONMENTS[name]
    return Actor(make_environments(f"fairseq_plugins/{environment}", copies, settings), seed)


def while_acting(agent, actor, steps):
    """A block, and the logits with which its actions were drawn [N, M, A]."""
    logits, choose = [], actor.choose
    actor.choose = lambda found: (logits.append(found), choose(found))[1]
    rollout = actor.roll(agent, steps)
    actor.choose = choose
    return rollout, torch.stack(logits, 1)


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("kind", AGENTS)
def test_learning_sees_what_acting_saw(kind, name):
    actor = actor_of(name)
    agent = build_agent(kind, actor.environments)
    modes = set()
    for _ in range(6):
        rollout, logits = while_acting(agent, actor, steps=5)
        recorded = kind is FeedbackAgent and not rollout.steps.begins[:, 1:-1].any()
        assert (rollout.recorded is not None) == recorded
        modes.add(recorded)
        again = rollout._replace(recorded=None)
        learned, values, actor.memory = agent(rollout)
        assert torch.allclose(learned[:, :-1], logits, atol=1e-9)
        if recorded:  # the recorded steps are those of a block that is computed again, gradients included
            others, other_values, memory = agent(again)
            for one, other in zip(actor.memory.tensors(), memory.tensors(), strict=True):
                assert torch.allclose(one, other, atol=1e-9)
            assert torch.allclose(values[:, :-1], other_values[:, :-1], atol=1e-9)
            gradients = [
                torch.autograd.grad(x[:, :-1].square().sum(), [*agent.body.parameters(), agent.embed.table.weight])
                for x in (learned, others)
            ]
            for one, other in zip(*gradients, strict=True):
                assert torch.allclose(one, other, atol=1e-8)
    expected = {"short": {True, False}, "aligned": {True}}[name] if kind is FeedbackAgent else {False}
    assert modes == expected


@pytest.mark.parametrize("kind", AGENTS)
def test_an_episode_does_not_depend_on_the_one_before(kind):
    actor = actor_of("short")
    agent = build_agent(kind, actor.environments)
    actor.roll(agent, 5)
    rollout = actor.roll(agent, 20)
    first = rollout.steps.begins[:, 1:].int().argmax(1) + 1  # the first episode that begins in the block
    logits, _, _ = agent(rollout)
    changed = rollout.steps.whole.clone()
    for row, begin in enumerate(first.tolist()):
        changed[row, :begin] = (changed[row, :begin] + 1) % 3
    others, _, _ = agent(rollout._replace(steps=rollout.steps._replace(whole=changed)))
    for row, begin in enumerate(first.tolist()):
        assert not torch.allclose(logits[row, :begin], others[row, :begin])
        assert torch.equal(logits[row, begin:], others[row, begin:])


def test_the_value_after_a_block_is_that_of_its_first_step():
    actor = actor_of("aligned")
    agent = build_agent(FeedbackAgent, actor.environments).eval()
    with torch.no_grad():
        _, values, actor.memory = agent(actor.roll(agent, 5))
        _, following, _ = agent(actor.roll(agent, 5))
    assert torch.allclose(values[:, -1], following[:, 0], atol=1e-9)


@pytest.mark.parametrize("blocks", [(5,), (3, 4), (2, 9)])
@pytest.mark.parametrize("kind", AGENTS)
def test_a_state_at_a_limit_has_the_value_that_it_has_without_one(kind, blocks):
    def mazes(limit):
        made = make_environments("fairseq_plugins/MazeNavigation-v0", COPIES, f'{{"max_steps": {limit}}}')
        return Actor(made, seed=1, bootstrap=True)

    free = mazes(100)
    agent = build_agent(kind, free.environments).eval()
    rollout = free.roll(agent, 20)
    assert rollout.cut_off is None
    expected = agent(rollout)[1][:, 5]
    limited, before = mazes(5), 0
    for block in blocks:
        rollout = limited.roll(agent, block)
        with torch.no_grad():
            *_, limited.memory = agent(rollout)
        found = None if rollout.cut_off is None else agent.last_values(rollout, rollout.cut_off)
        if before < 5 <= before + block:
            torch.testing.assert_close(found[:, 4 - before], expected, atol=1e-9, rtol=0)
            assert ((found != 0) == rollout.ends).all()
        before += block


class Chain(gymnasium.Env):
    """Its reward is 1 in every second step. It never ends by itself, and shows the number of the step or hides it."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.MultiDiscrete([2, LIMIT + 1])

    def __init__(self, clock):
        self.clock = clock

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.phase, self.steps = int(self.np_random.integers(2)), 0
        return self.seen(), {}

    def step(self, action):
        reward = float(self.phase == 0)
        self.phase, self.steps = 1 - self.phase, self.steps + 1
        return self.seen(), reward, False, False, {}

    def seen(self):
        return np.array([self.phase, self.steps * self.clock])


def value_with_end(phase, step):
    """The rewards until the limit, discounted by 0.5."""
    return sum(0.5**later for later in range(LIMIT - step) if (phase + later) % 2 == 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bootstrap, value", [(False, value_with_end), (True, lambda phase, step: (4 / 3, 2 / 3)[phase])]
)
def test_values_converge_to_the_right_ones(bootstrap, value, monkeypatch):
    """Where the limit is no end, an agent that does not see the time has the values 1 + 1/4 + 1/16... and its half."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Chain-v0", Chain, max_episode_steps=LIMIT, kwargs={"clock": not bootstrap})
    actor = Actor(make_environments("Chain-v0", 8), seed=1, bootstrap=bootstrap)
    agent = build_agent(SpanTransformerAgent, actor.environments, attention_span=1)
    sizes = None, None, actor.distribution
    task = SimpleNamespace(ranks=(0, 1), agent_sizes=lambda: sizes)
    criterion = A2CCriterion(task, discount=0.5, entropy_cost=0.01, value_cost=0.5)
    optimizer = torch.optim.Adam(agent.parameters(), lr=0.003)
    for _ in range(300):
        sample = {"rollout": actor.roll(agent, 8), "episodes": actor.take_finished()}
        loss, steps, _ = criterion(agent, sample)
        actor.memory = sample["memory"]
        optimizer.zero_grad()
        (loss / steps).backward()
        optimizer.step()
    age = actor.lengths.copy()
    rollout = actor.roll(agent, 16)
    _, values, _ = agent(rollout)
    for row, found in enumerate(values[:, :-1].tolist()):
        for place, one in enumerate(found):
            phase = int(rollout.steps.whole[row, place, 0])
            assert one == pytest.approx(value(phase, (age[row] + place) % LIMIT), abs=0.05)


def test_blocks_of_a_validation_have_targets_of_their_own():
    options = {"environment": "fairseq_plugins/Corridor-v0", "environment_settings": '{"length": 6}', "bptt": 4}
    config = ReinforcementLearningConfig(**options, batch_size=COPIES, test_episodes=4, max_tokens=None, seed=1)
    task, seen = ReinforcementLearningTask.setup_task(config), []
    task.validated_copies = COPIES
    criterion = PPOCriterion(task, discount=0.9, entropy_cost=0.01, value_cost=0.5)

    def watched(agent, sample):
        seen.append(sample.get("targets"))
        return criterion(agent, sample)

    agent = build_agent(GRUAgent, task.new_actor(1, COPIES).environments)
    task.valid_step({"id": torch.tensor([0])}, agent, watched)
    assert len(seen) > 1 and not any(seen)


class Echo(gymnasium.Env):
    """Shows the last action, in an episode of four steps."""

    def __init__(self, space):
        self.action_space, self.observation_space = space, gymnasium.spaces.Dict(action=space)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return {"action": self.action_space.sample()}, {}

    def step(self, action):
        assert action in self.action_space
        self.steps += 1
        return {"action": action}, 0.0, self.steps == 4, False, {}


@pytest.mark.parametrize("kind", [FeedbackAgent, LSTMAgent])
@pytest.mark.parametrize("space", [
    gymnasium.spaces.Discrete(3, start=7), gymnasium.spaces.MultiDiscrete([[2, 3]]), gymnasium.spaces.MultiBinary(3),
    gymnasium.spaces.Box(np.float32([[-1], [0]]), np.float32([[1], [8]])),
])  # fmt: skip
def test_actions_of_every_space(space, kind, monkeypatch):
    """The environment gets what was drawn, the agent sees it, and learning sees what acting saw."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Echo-v0", Echo, kwargs={"space": space})
    actor = Actor(make_environments("Echo-v0", COPIES), seed=1)
    agent = build_agent(kind, actor.environments)
    rollout, drawn = while_acting(agent, actor, steps=6)
    learned, *_ = agent(rollout)
    torch.testing.assert_close(learned[:, :-1], drawn, atol=1e-9, rtol=0)
    steps, goes_on = rollout.steps, ~rollout.ends
    taken = actor.distribution.seen(rollout.actions[goes_on].numpy())
    np.testing.assert_array_equal(steps.previous[:, 1:][goes_on], taken)
    assert not steps.previous[:, 1:][~goes_on].any() and rollout.ends.sum() == COPIES
    seen = torch.cat([steps.whole, steps.numbers], -1)[:, 1:][goes_on]  # one of them is empty
    expected = taken - 1 if actor.distribution.sizes else taken
    np.testing.assert_allclose(seen, expected.reshape(seen.shape), atol=1e-6)


def test_episodes_as_rows():
    begins = torch.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 1, 1, 0, 0]], dtype=torch.bool)
    episodes = Episodes(begins)
    x = torch.arange(15.0).view(3, 5, 1)
    cut = episodes.cut(x)
    rows = [cut[row, :length, 0].tolist() for row, length in enumerate(episodes.length.tolist())]
    assert rows == [[0, 1, 2], [3, 4], [5, 6, 7, 8, 9], [10], [11], [12, 13, 14]]
    assert torch.equal(episodes.join(cut), x)
    assert episodes.fresh.tolist() == [True, True, False, False, True, True]
    assert episodes.last.tolist() == [1, 2, 5]
    assert episodes.padding(unfinished=1).tolist() == [2, 4, 1, 4, 4, 3]
