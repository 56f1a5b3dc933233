"""Proximal policy optimisation (PPO): several updates from a block, each near the policy that acted.

The loss is equation (7) of Schulman et al. (2017), with the generalised advantages of Schulman et al. (2016). Every
update goes over the whole block, from the memory that the agent had before it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from fairseq.criterions import register_criterion
from torch import Tensor
from torch.distributed import all_reduce

from fairseq_plugins.agents.criterions.a2c import A2CConfig, A2CCriterion, Losses, discounted, last_values_of, summed
from fairseq_plugins.options.fields import option


class Targets(NamedTuple):
    """What the first update from a block finds, for all of them [N, M].

    Attributes:
        log_prob: of the actions
        advantages: in training normalised
        returns: what the values should be
    """

    log_prob: Tensor
    advantages: Tensor
    returns: Tensor


def generalised_advantages(
    rewards: Tensor, ends: Tensor, values: Tensor, discount: float, decay: float, last_values: Tensor | None = None
) -> Tensor:
    """A_t = d_t + discount * decay * A_(t+1), with d_t = r_t + discount * V_(t+1) - V_t.

    Args:
        rewards, ends: [N, M]
        values: of the steps and of the one after them [N, M + 1]
        decay: lambda; with 1 an advantage is the return minus the value
        last_values: of episodes that were cut off, otherwise 0 [N, M]; None: there are none

    Returns:
        [N, M]
    """
    last_values = torch.zeros_like(rewards) if last_values is None else last_values
    surprises = rewards + discount * torch.where(ends, last_values, values[:, 1:]) - values[:, :-1]
    return discounted(surprises, ends, torch.zeros_like(values[:, 0]), discount * decay)


def clipped_loss(log_prob: Tensor, targets: Targets, clip_range: float) -> Tensor:
    """-min(r A, clip(r) A), where r is the probability of an action relative to that when it was taken [N, M]."""
    ratio, advantages = (log_prob - targets.log_prob).exp(), targets.advantages
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - clip_range, 1 + clip_range) * advantages)


def normalised(advantages: Tensor, ranks: int) -> Tensor:
    """With mean 0 and standard deviation 1 over the blocks of all ranks."""
    exact = advantages.double()
    sums = torch.stack([torch.ones_like(exact), exact, exact.square()]).sum((1, 2))
    if ranks > 1:
        all_reduce(sums)
    count, total, squares = sums
    mean = total / count
    spread = (squares / count - mean.square()).clamp(min=0).sqrt()
    return ((advantages - mean) / (spread + 1e-8)).to(advantages.dtype)


@dataclass
class PPOConfig(A2CConfig):
    gae_lambda: float = option(0.95, "decay of later surprises in an advantage: 1 counts all as much, 0 only the next")
    clip_range: float = option(0.2, "relative change of an action's probability beyond which it gains nothing more")
    updates_per_block: int = option(4, "updates from each block of --bptt steps")


@register_criterion("ppo", dataclass=PPOConfig)
class PPOCriterion(A2CCriterion):
    """As A2C, with the loss of PPO in --updates-per-block updates from a block."""

    def __init__(
        self,
        task,
        discount: float,
        entropy_cost: float,
        value_cost: float,
        loss_reduction: str = "mean",
        gae_lambda: float = 0.95,
        clip_range: float = 0.2,
        updates_per_block: int = 4,
    ):  # fairseq reads the names of options here
        super().__init__(task, discount, entropy_cost, value_cost, loss_reduction)
        self.gae_lambda, self.clip_range, self.updates_per_block = gae_lambda, clip_range, updates_per_block

    def losses(self, model, sample: dict, parameters: Tensor, values: Tensor) -> Losses:
        log_prob = self.distribution.log_prob(parameters, sample["rollout"].actions)
        if sample.get("targets") is None:
            sample["targets"] = self.targets(model, sample["rollout"], log_prob.detach(), values.detach())
        targets = Targets(*sample["targets"])  # a checkpoint has a list
        policy_loss = clipped_loss(log_prob, targets, self.clip_range)
        value_loss = (targets.returns - values[:, :-1]).square()
        return summed(policy_loss, value_loss, self.distribution.entropy(parameters), sample.get("counted"))

    def targets(self, model, rollout, log_prob: Tensor, values: Tensor) -> Targets:
        rewards, last_values = rollout.rewards.to(values.dtype), last_values_of(model, rollout)
        rates = self.discount, self.gae_lambda
        advantages = generalised_advantages(rewards, rollout.ends, values, *rates, last_values)
        returns = advantages + values[:, :-1]
        if model.training:  # in a validation ranks have different numbers of blocks
            _, ranks = self.task.ranks
            advantages = normalised(advantages, ranks)
        return Targets(log_prob, advantages, returns)
