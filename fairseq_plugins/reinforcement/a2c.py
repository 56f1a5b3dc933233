"""Advantage actor-critic (A2C): the loss of a block.

The Feedback paper trains with A2C (Fan et al., 2020, section 7), the synchronous form of A3C (Mnih et al., 2016).
"""

from typing import NamedTuple

import torch
from torch import Tensor


def discounted(rewards: Tensor, ends: Tensor, after: Tensor, discount: float) -> Tensor:
    """R_t = r_t + discount * R_(t+1), and R_t = r_t where an episode ends with step t.

    Args:
        rewards, ends: [N, M]
        after: the value of the observation after the block [N], in place of R_(M+1)

    Returns:
        [N, M]
    """
    returns, following = [], after
    for reward, end in zip(rewards.unbind(1)[::-1], ends.unbind(1)[::-1]):
        following = reward + discount * torch.where(end, 0.0, following)
        returns.append(following)
    return torch.stack(returns[::-1], 1)


class Losses(NamedTuple):
    """Sums over the steps of a block: of the policy's loss, of the squared errors of the values, and of the entropy."""

    policy: Tensor
    value: Tensor
    entropy: Tensor


def losses(logits: Tensor, values: Tensor, actions: Tensor, returns: Tensor, counted: Tensor | None = None) -> Losses:
    """
    Args:
        logits: of the actions [N, M, A]
        values: [N, M]
        actions: that were taken [N, M]
        returns: [N, M]
        counted: the steps that count, booleans [N, M]; None: all
    """
    log_probs = logits.log_softmax(-1)
    taken = log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    advantages = returns - values
    of_steps = -(taken * advantages.detach()), advantages.square(), -(log_probs.exp() * log_probs)
    return Losses(*((part if counted is None else part[counted]).sum() for part in of_steps))
