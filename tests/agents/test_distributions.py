"""Distributions of actions: their samples, densities and entropies."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import AffineTransform, Normal, TanhTransform, TransformedDistribution

from fairseq_plugins.agents.distributions import Categorical, distribution_of
from fairseq_plugins.errors import UserError

BOX = spaces.Box(np.array([[-2.0, 0.0]]), np.array([[2.0, 10.0]]), dtype=np.float64)
MEANS, DEVIATIONS = torch.tensor([0.3, -2.0], dtype=torch.float64), torch.tensor([0.5, 2.0], dtype=torch.float64)
PARAMETERS = torch.cat([MEANS, DEVIATIONS.log()])


def evenly(count: int, parts: int) -> np.ndarray:
    """Draws [count, parts]: all parts go evenly from 0 to 1, in another order each."""
    draws = (np.arange(count) + 0.5) / count
    return np.stack([np.random.default_rng(part).permutation(draws) for part in range(parts)], 1)


def test_discrete_begins_where_the_space_does():
    actions = distribution_of(spaces.Discrete(3, start=5))
    logits = torch.tensor([0.5, 0.25, 0.25]).log().expand(100, 3)
    drawn = actions.sample(logits, evenly(100, 1))
    assert np.bincount(actions.done(drawn)).tolist() == [0] * 5 + [50, 25, 25]
    assert actions == Categorical(3) != Categorical(4) and (actions.seen(drawn) > 0).all()


@pytest.mark.parametrize("space, odds", [
    (spaces.MultiDiscrete([2, 3], start=[0, 4]), [[3, 1], [1, 1, 2]]), (spaces.MultiBinary(2), [[3, 1], [1, 3]])
])  # fmt: skip
def test_heads_are_independent(space, odds):
    actions = distribution_of(space)
    parameters = torch.tensor(sum(odds, []), dtype=torch.float64).log()
    drawn = actions.sample(parameters.expand(400, -1), evenly(400, 2))
    chances = [np.array(part) / sum(part) for part in odds]
    for part, expected in enumerate(chances):
        assert (np.bincount(drawn[:, part]) / 400).tolist() == expected.tolist()
    joint = np.log(np.outer(*chances))
    log_prob = actions.log_prob(parameters.expand(400, -1), torch.from_numpy(drawn))
    np.testing.assert_allclose(log_prob, joint[drawn[:, 0], drawn[:, 1]])
    assert actions.entropy(parameters).item() == pytest.approx(-(np.exp(joint) * joint).sum())
    assert all(action in space for action in actions.done(drawn))


def test_a_gaussian_is_squashed_to_the_bounds():
    actions = distribution_of(BOX)
    drawn = actions.sample(PARAMETERS.expand(1000, -1), evenly(1000, 2))
    done = torch.from_numpy(actions.done(drawn)).view(1000, 2)
    squash = [TanhTransform(), AffineTransform(torch.tensor([0.0, 5.0]), torch.tensor([2.0, 5.0]))]
    expected = TransformedDistribution(Normal(MEANS, DEVIATIONS), squash)
    inner = (torch.from_numpy(drawn).abs() < 6).all(1)  # torch's own inverse of tanh is not exact near the bounds
    log_prob = actions.log_prob(PARAMETERS, torch.from_numpy(drawn))
    torch.testing.assert_close(log_prob[inner], expected.log_prob(done)[inner].sum(1), rtol=1e-7, atol=1e-7)
    assert inner.sum() > 900 and actions.entropy(PARAMETERS).item() == pytest.approx(-log_prob.mean().item(), abs=0.02)
    assert np.abs(actions.seen(drawn)).max() <= 1


@pytest.mark.parametrize("u", [-40.0, 40.0])
def test_log_probabilities_are_right_at_the_bounds(u):
    """tanh(u) is 1 in float64. There 1 - tanh(u)^2 is 4 exp(-2 |u|)."""
    actions = distribution_of(spaces.Box(-2.0, 2.0, (1,)))
    parameters = torch.tensor([math.copysign(39, u), 0.0], dtype=torch.float64, requires_grad=True)
    log_prob = actions.log_prob(parameters, torch.tensor([u], dtype=torch.float64))
    assert log_prob.item() == pytest.approx(-0.5 - math.log(2 * math.pi) / 2 - math.log(2 * 4) + 80)
    (gradient,) = torch.autograd.grad(log_prob + actions.entropy(parameters), parameters)
    assert gradient.isfinite().all() and actions.done(np.array([[u]])).item() == math.copysign(2, u)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_densities_are_right_in_half_precision(dtype):
    """The parameters are numbers of this type, and the actions are not."""
    actions, parameters = distribution_of(BOX), torch.tensor([1.5, -2.5, -3.0, -4.0], dtype=dtype)
    drawn = torch.from_numpy(actions.sample(parameters.expand(20, -1), evenly(20, 2)))
    torch.testing.assert_close(
        actions.log_prob(parameters, drawn).double(), actions.log_prob(parameters.double(), drawn), rtol=1e-4, atol=1e-4
    )
    assert actions.entropy(parameters).item() == pytest.approx(actions.entropy(parameters.double()).item(), rel=1e-5)


def test_gradients_of_a_squashed_gaussian():
    actions, u = distribution_of(BOX), torch.tensor([1.0, -3.0], dtype=torch.float64)
    parameters = PARAMETERS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda found: actions.log_prob(found, u), parameters)
    assert torch.autograd.gradcheck(actions.entropy, parameters)


@pytest.mark.parametrize("space", [
    spaces.Box(0, np.inf, (2,)), spaces.Box(1, 1, (2,)), spaces.Box(0, 9, (2,), np.int64), spaces.Text(3),
    spaces.Tuple([spaces.Discrete(2)]), spaces.Dict(a=spaces.Discrete(2)),
    spaces.Box(np.finfo(np.float32).min, np.finfo(np.float32).max, (2,)),
])  # fmt: skip
def test_other_actions_are_one_sentence(space):
    with pytest.raises(UserError, match="agents have no actions of .*; choose an environment with Discrete"):
        distribution_of(space)
