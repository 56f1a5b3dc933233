from types import SimpleNamespace

import pytest
import torch

from fairseq_plugins.agents.criterions.a2c import A2CCriterion, discounted
from fairseq_plugins.agents.criterions.ppo import PPOCriterion, Targets, clipped_loss, generalised_advantages
from fairseq_plugins.agents.distributions import Categorical

REWARDS = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
ENDS = torch.tensor([[False, True, False], [False, False, False]])
VALUES = torch.tensor([[1.0, 2.0, 3.0, 10.0], [0.0, 2.0, 1.0, 4.0]])
LAST_VALUES = torch.tensor([[0.0, 8.0, 0.0], [0.0, 0.0, 0.0]])  # a time limit ended the first episode


def test_advantages_by_hand():
    # surprises: 1 + 1 - 1, 0 - 2, 2 + 5 - 3, and 0 + 1 - 0, 1 + 0.5 - 2, 0 + 2 - 1
    found = generalised_advantages(REWARDS, ENDS, VALUES, discount=0.5, decay=0.5)
    assert found.tolist() == [[1 - 2 / 4, -2, 4], [1 + (-0.5 + 1 / 4) / 4, -0.5 + 1 / 4, 1]]
    found = generalised_advantages(REWARDS, ENDS, VALUES, 0.5, 0.5, LAST_VALUES)
    assert found[0].tolist() == [1 + 2 / 4, 2, 4]


@pytest.mark.parametrize("last_values", [None, LAST_VALUES])
def test_with_lambda_1_an_advantage_is_the_return_minus_the_value(last_values):
    found = generalised_advantages(REWARDS, ENDS, VALUES, 0.5, 1.0, last_values)
    returns = discounted(REWARDS, ENDS, VALUES[:, -1], 0.5, last_values)
    torch.testing.assert_close(found, returns - VALUES[:, :-1])


def test_a_probability_far_from_the_old_one_gains_nothing_more():
    ratio = torch.tensor([[1.1, 1.5, 0.5, 1.5, 0.5]], requires_grad=True)
    advantages = torch.tensor([[2.0, 2.0, 2.0, -2.0, -2.0]])
    loss = clipped_loss(ratio.log(), Targets(torch.zeros(1, 5), advantages, advantages), clip_range=0.2)
    torch.testing.assert_close(loss, torch.tensor([[-2.2, -2.4, -1.0, 3.0, 1.6]]))
    loss.sum().backward()
    torch.testing.assert_close(ratio.grad, torch.tensor([[-2.0, 0.0, -2.0, 2.0, 0.0]]))


def update(kind, rollout, logits, values, **options):
    """The gradient of the logits, and the sample after it."""
    task = SimpleNamespace(ranks=(0, 1), agent_sizes=lambda: ([], 0, Categorical(3)))
    criterion = kind(task, discount=0.5, entropy_cost=0.01, value_cost=0.5, **options)
    sample = {"rollout": rollout, "episodes": []}

    def model(rollout):
        return logits, values, None

    model.training = True
    loss, *_ = criterion(model, sample)
    return torch.autograd.grad(loss, logits)[0], sample


def test_the_first_update_is_that_of_a2c_with_normalised_advantages():
    torch.manual_seed(1)
    logits, actions = torch.randn(2, 4, 3, requires_grad=True), torch.randint(3, (2, 3))
    rollout = SimpleNamespace(actions=actions, rewards=REWARDS, ends=ENDS, cut_off=None)
    advantages = discounted(REWARDS, ENDS, VALUES[:, -1], 0.5) - VALUES[:, :-1]
    scale = (advantages - advantages.mean()) / advantages.std(correction=0)
    found, sample = update(PPOCriterion, rollout, logits, VALUES, gae_lambda=1.0)
    torch.testing.assert_close(sample["targets"].advantages, scale)
    torch.testing.assert_close(sample["targets"].returns, advantages + VALUES[:, :-1])
    same = VALUES.clone()
    same[:, :-1] = discounted(REWARDS, ENDS, VALUES[:, -1], 0.5) - scale
    torch.testing.assert_close(found, update(A2CCriterion, rollout, logits, same)[0])
