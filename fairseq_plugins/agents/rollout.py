"""A block of steps in N environments, and how it is cut into episodes."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Steps(NamedTuple):
    """The input of the agents.

    Attributes:
        whole: whole numbers of the observations [N, T, K]
        numbers: their other numbers [N, T, F]
        previous: the action before each observation [N, T, ...], whole numbers from 1; 0 where an episode begins
        begins: is it the first of an episode? [N, T]
    """

    whole: Tensor
    numbers: Tensor
    previous: Tensor
    begins: Tensor


class CutOff(NamedTuple):
    """The last states of E episodes that a time limit cut off, which no action follows.

    Attributes:
        environment, step: where and when [E]
        last: the observations [E, ...]
    """

    environment: Tensor
    step: Tensor
    last: Steps


class Rollout(NamedTuple):
    """A block that has been acted.

    Attributes:
        steps: T = M + 1 observations
        actions: [N, M, ...]
        rewards: [N, M]
        ends: does an episode end with the step? [N, M]
        memory: of the blocks before
        recorded: the body's state, if it recorded the steps and no episode began after the first of them
        cut_off: the states of which the value counts though their episode does not go on; None: there are none
    """

    steps: Steps
    actions: Tensor
    rewards: Tensor
    ends: Tensor
    memory: Any
    recorded: Any
    cut_off: CutOff | None = None


@dataclass
class Learning:
    """A block from which one update or several learn.

    Attributes:
        begun: the number of the first update from it
        episodes: that ended since the last block
        targets: what the criterion keeps from its first update for the others
        left: how many updates follow
    """

    begun: int
    rollout: Rollout
    episodes: list
    targets: Any = None
    left: int = 0


class Episodes:
    """The parts of a block that belong to one episode each, as R rows of a batch.

    Args:
        begins: [N, T]
    """

    def __init__(self, begins: Tensor):
        steps = begins.size(1)
        first = begins.clone()
        first[:, 0] = True
        self.environment, self.start = first.nonzero(as_tuple=True)
        end = torch.cat([self.start[1:], self.start.new_tensor([steps])])
        self.length = torch.where(end > self.start, end, steps) - self.start  # the next row may be another environment
        self.row = (first.flatten().cumsum(0) - 1).view_as(begins)  # of each step [N, T]
        self.last = self.row[:, -1]  # the last row of each environment [N]
        self.fresh = begins[self.environment, self.start]  # does the row begin with an empty memory? [R]

    def cut(self, x: Tensor) -> Tensor:
        """[N, T, C] -> [R, longest, C]; entries behind the end of a row have no meaning."""
        places = self.start.unsqueeze(1) + torch.arange(int(self.length.max()), device=x.device)
        return x[self.environment.unsqueeze(1), places.clamp(max=x.size(1) - 1)]

    def join(self, y: Tensor) -> Tensor:
        """[R, longest, C] -> [N, T, C]"""
        steps = torch.arange(self.row.size(1), device=y.device)
        return y[self.row, steps - self.start[self.row]]

    def padding(self, unfinished: int) -> Tensor:
        """The number of steps of padding at the end of each row [R]. The last ``unfinished`` steps of a block count as
        padding."""
        behind = (self.start + self.length - self.row.size(1) + unfinished).clamp(min=0).minimum(self.length)
        return self.length.max() - self.length + behind


def memory_of_rows(memory, rows: Tensor, fresh: Tensor | None = None):
    """The memory of other rows: row i continues rows[i], or starts with zeros where fresh[i]."""
    tensors = [tensor[rows] for tensor in memory.tensors()]
    if fresh is not None:
        tensors = [tensor.masked_fill(fresh.view(-1, *[1] * (tensor.dim() - 1)), 0) for tensor in tensors]
    return type(memory).from_tensors(tensors)
