"""The loss that fairseq gets."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_plugins.agents.a2c import A2CCriterion


def rollout_of(environments, steps):
    torch.manual_seed(1)
    shape = environments, steps
    return SimpleNamespace(
        actions=torch.randint(3, shape), rewards=torch.rand(shape), ends=torch.rand(shape) < 0.2, steps=None
    )


def gradient(reduction, ranks):
    """Of logits, as fairseq scales it, where ``ranks`` ranks have the same block."""
    task = SimpleNamespace(ranks=(0, ranks))
    criterion = A2CCriterion(task, discount=0.9, entropy_cost=0.01, value_cost=0.5, loss_reduction=reduction)
    torch.manual_seed(2)
    logits = torch.randn(4, 6, 3, dtype=torch.float64, requires_grad=True)
    sample = {"rollout": rollout_of(4, 5), "episodes": []}
    loss, sample_size, _ = criterion(lambda _: (logits, logits.sum(-1), None), sample)
    (ranks * loss / (ranks * sample_size)).backward()
    return logits.grad


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_sum_is_over_the_steps_of_all_ranks(ranks):
    mean = gradient("mean", ranks)
    torch.testing.assert_close(mean, gradient("mean", 1))
    torch.testing.assert_close(gradient("sum", ranks), mean * (ranks * 4 * 5))
