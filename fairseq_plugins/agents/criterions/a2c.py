"""Advantage actor-critic (A2C): the loss of a block.

The Feedback paper trains with A2C (Fan et al., 2020, section 7), the synchronous form of A3C (Mnih et al., 2016).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from fairseq_plugins.agents.distributions import Distribution
from fairseq_plugins.agents.rollout import Rollout
from fairseq_plugins.errors import UserError
from fairseq_plugins.options.fields import option


def discounted(
    rewards: Tensor, ends: Tensor, after: Tensor, discount: float, last_values: Tensor | None = None
) -> Tensor:
    """R_t = r_t + discount * R_(t+1). Where an episode ends with step t, R_(t+1) is the value of its last state if a
    time limit cut it off (Pardo et al., 2018), and otherwise 0.

    Args:
        rewards, ends: [N, M]
        after: the value of the observation after the block [N], in place of R_(M+1)
        last_values: of episodes that were cut off, otherwise 0 [N, M]; None: there are none

    Returns:
        [N, M]
    """
    if last_values is None:
        last_values = torch.zeros_like(rewards)
    returns, following = [], after
    for reward, end, last in zip(*(x.unbind(1)[::-1] for x in (rewards, ends, last_values))):
        following = reward + discount * torch.where(end, last, following)
        returns.append(following)
    return torch.stack(returns[::-1], 1)


class Losses(NamedTuple):
    """Sums over the steps of a block: of the policy's loss, of the squared errors of the values, and of the entropy."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor


def a2c_losses(
    distribution: Distribution,
    parameters: Tensor,
    values: Tensor,
    actions: Tensor,
    returns: Tensor,
    counted: Tensor | None = None,
) -> Losses:
    """
    Args:
        distribution: of actions
        parameters: of it [N, M, P]
        values: [N, M]
        actions: that were taken [N, M, ...]
        returns: [N, M]
        counted: the steps that count, booleans [N, M]; None: all
    """
    taken, advantages = distribution.log_prob(parameters, actions), returns - values
    return summed(-(taken * advantages.detach()), advantages.square(), distribution.entropy(parameters), counted)


def summed(policy_loss: Tensor, value_loss: Tensor, entropy: Tensor, counted: Tensor | None) -> Losses:
    """Of steps [N, M]; of those in ``counted`` if it is given."""
    of_steps = policy_loss, value_loss, entropy
    return Losses(*((part if counted is None else part[counted]).sum() for part in of_steps))


def last_values_of(model, rollout: Rollout) -> Tensor | None:
    return None if rollout.cut_off is None else model.last_values(rollout, rollout.cut_off)


def episode_logs(episodes: list) -> dict[str, float]:
    """Sums over episodes, and in how many of them the environment told a success."""
    told = [episode.success for episode in episodes if not math.isnan(episode.success)]
    return {
        "reward": sum(episode.reward for episode in episodes),
        "length": sum(episode.length for episode in episodes),
        "episodes": len(episodes),
        "success": sum(told),
        "told": len(told),
    }


LossReduction: Any = ChoiceEnum(["mean", "sum"])


@dataclass
class A2CConfig(FairseqDataclass):
    discount: float = option(0.99, "discount of the rewards of later steps")
    entropy_cost: float = option(0.0005, "coefficient of the policy's entropy in the loss")
    value_cost: float = option(0.5, "coefficient of the values' squared error in the loss")
    loss_reduction: LossReduction = option(
        "mean", "over the steps of a block; sum is for RMSprop with a large --rmsprop-eps"
    )


@register_criterion("a2c", dataclass=A2CConfig)
class A2CCriterion(FairseqCriterion):
    """The policy's loss, plus --value-cost times the squared error of the values, minus --entropy-cost times the
    policy's entropy, each a mean over the steps of a block, or their sum with --loss-reduction sum. Gradients of a mean
    are far below 0.01, the epsilon that the Feedback paper gives for RMSprop, which then no longer normalises them.

    Logged are these three parts, and ``reward``, ``length`` and, where environments tell it, ``success``, the means
    over the episodes that have ended.
    """

    LOGGED = ("loss", "policy_loss", "value_loss", "entropy", "reward", "length", "episodes")  # by a validation
    MAY_LOG = ("success",)  # where environments tell it
    updates_per_block = 1

    def __init__(self, task, discount: float, entropy_cost: float, value_cost: float, loss_reduction: str = "mean"):
        super().__init__(task)
        self.discount, self.entropy_cost, self.value_cost = discount, entropy_cost, value_cost
        self.loss_reduction = loss_reduction

    @classmethod
    def build_criterion(cls, cfg, task):
        if not hasattr(task, "agent_sizes"):
            raise UserError(f"--criterion {cfg._name} is for --task reinforcement_learning.")
        return super().build_criterion(cfg, task)

    def forward(self, model, sample, reduce=True):
        """The loss, of which fairseq takes the mean over the steps of all ranks; the number of steps; the values to
        log. The memory for the next block is put into ``sample["memory"]``. Where there is a ``sample["counted"]``,
        booleans [N, M], only these steps count."""
        rollout, counted = sample["rollout"], sample.get("counted")
        parameters, values, sample["memory"] = model(rollout)
        # half precision rounds small changes of a probability away, and cannot hold large returns and sums over a block
        exact = torch.promote_types(values.dtype, torch.float32)
        parts = self.losses(model, sample, parameters[:, :-1].to(exact), values.to(exact))
        loss = parts.policy_loss + self.value_cost * parts.value_loss - self.entropy_cost * parts.entropy
        steps = rollout.rewards.numel() if counted is None else int(counted.sum())
        logged = {
            "loss": loss.data,
            **{name: part.data for name, part in parts._asdict().items()},
            **episode_logs(sample["episodes"]),
            "ntokens": steps,
            "nsentences": len(rollout.actions),
            "sample_size": steps,
        }
        if self.loss_reduction == "sum":  # fairseq divides gradients by the steps of all ranks
            _, ranks = self.task.ranks
            loss = loss * (steps * ranks)
        return loss, steps, logged

    def losses(self, model, sample: dict, parameters: Tensor, values: Tensor) -> Losses:
        """
        Args:
            parameters: of the policy in the steps of the block [N, M, P]
            values: of these steps, and of the one after them [N, T]
        """
        rollout = sample["rollout"]
        rewards, last_values = rollout.rewards.to(values.dtype), last_values_of(model, rollout)
        returns = discounted(rewards, rollout.ends, values[:, -1].detach(), self.discount, last_values)
        taken = rollout.actions, returns, sample.get("counted")
        return a2c_losses(self.distribution, parameters, values[:, :-1], *taken)

    @property
    def distribution(self) -> Distribution:
        _, _, distribution = self.task.agent_sizes()
        return distribution

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        def total(key):
            return sum(log.get(key, 0) for log in logging_outputs)

        steps, episodes = total("sample_size"), total("episodes")
        for name in ("loss", *Losses._fields):
            if steps:
                metrics.log_scalar(name, total(name) / steps, steps, round=5)
        if episodes:
            for name in ("reward", "length"):
                metrics.log_scalar(name, total(name) / episodes, episodes, round=3)
        if told := total("told"):
            metrics.log_scalar("success", total("success") / told, told, round=3)
        metrics.log_scalar_sum("episodes", episodes)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
