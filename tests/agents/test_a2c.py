import math
from types import SimpleNamespace

import pytest
import torch

from fairseq_plugins.agents.criterions.a2c import A2CCriterion, a2c_losses, discounted
from fairseq_plugins.agents.distributions import Categorical


def test_returns_by_hand():
    rewards = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
    ends = torch.tensor([[False, True, False], [False, False, False]])
    returns = discounted(rewards, ends, after=torch.tensor([10.0, 4.0]), discount=0.5)
    assert returns.tolist() == [[1.0, 0.0, 7.0], [1.0, 2.0, 2.0]]
    last_values = torch.tensor([[0.0, 8.0, 0.0], [0.0, 0.0, 0.0]])  # a time limit ended the first episode
    returns = discounted(rewards, ends, torch.tensor([10.0, 4.0]), 0.5, last_values)
    assert returns.tolist() == [[3.0, 4.0, 7.0], [1.0, 2.0, 2.0]]


def test_losses_by_hand():
    logits = torch.tensor([[[0.0, math.log(3.0)]]], requires_grad=True)  # probabilities 1/4 and 3/4
    values = torch.tensor([[2.0]], requires_grad=True)
    parts = a2c_losses(Categorical(2), logits, values, actions=torch.tensor([[1]]), returns=torch.tensor([[5.0]]))
    assert parts.policy_loss.item() == pytest.approx(-3 * math.log(0.75))
    assert parts.value_loss.item() == pytest.approx(9.0)
    assert parts.entropy.item() == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))
    parts.policy_loss.backward()
    # the gradient of -A log p(a) is A (p - one-hot); the advantage A = 3 is a constant, so the value has none
    assert logits.grad.flatten().tolist() == pytest.approx([0.75, -0.75])
    assert values.grad is None


def test_only_counted_steps_are_added():
    generator = torch.Generator().manual_seed(1)
    logits, values = torch.randn(2, 3, 4, generator=generator), torch.randn(2, 3, generator=generator)
    actions, returns = torch.randint(4, (2, 3), generator=generator), torch.randn(2, 3, generator=generator)
    counted = torch.tensor([[True, True, False], [False, False, False]])
    some = a2c_losses(Categorical(4), logits, values, actions, returns, counted)
    first = a2c_losses(Categorical(4), logits[:1, :2], values[:1, :2], actions[:1, :2], returns[:1, :2])
    torch.testing.assert_close(some, first)


def criterion_and_sample(reduction="mean", ranks=1):
    torch.manual_seed(1)
    shape = 4, 5
    actions, rewards, ends = torch.randint(3, shape), torch.rand(shape), torch.rand(shape) < 0.2
    rollout = SimpleNamespace(actions=actions, rewards=rewards, ends=ends, cut_off=None)
    criterion = A2CCriterion(
        SimpleNamespace(ranks=(0, ranks), agent_sizes=lambda: ([], 0, Categorical(3))),
        discount=0.9,
        entropy_cost=0.01,
        value_cost=0.5,
        loss_reduction=reduction,
    )
    return criterion, {"rollout": rollout, "episodes": []}


def test_sums_do_not_overflow_in_half_precision():
    criterion, sample = criterion_and_sample()
    logits, values = torch.randn(4, 6, 3).half(), torch.full((4, 6), 300.0).half()  # 20 squares are above 65,504
    half, _, _ = criterion(lambda _: (logits, values, None), sample)
    whole, _, _ = criterion(lambda _: (logits.float(), values.float(), None), sample)
    assert half.dtype is torch.float32 and half == whole


def gradient(reduction, ranks):
    """Of logits, as fairseq scales it, where ``ranks`` ranks have the same block."""
    criterion, sample = criterion_and_sample(reduction, ranks)
    logits = torch.randn(4, 6, 3, dtype=torch.float64, requires_grad=True)
    loss, sample_size, _ = criterion(lambda _: (logits, logits.sum(-1), None), sample)
    (ranks * loss / (ranks * sample_size)).backward()
    return logits.grad


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_sum_is_over_the_steps_of_all_ranks(ranks):
    mean = gradient("mean", ranks)
    torch.testing.assert_close(mean, gradient("mean", 1))
    torch.testing.assert_close(gradient("sum", ranks), mean * (ranks * 4 * 5))
