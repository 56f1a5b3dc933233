"""Agents with a memory: what they see is embedded, goes through the body of a language model over streams, and gives
the policy and the value (Fan et al., 2020, section 7.2).

N environments, T steps of a block, A actions, C width.
"""

import torch
from fairseq.models import BaseFairseqModel
from torch import Tensor, nn

from fairseq_plugins.reinforcement.steps import Episodes, Rollout, Steps, memory_of_rows


class SeenEmbedding(nn.Module):
    """The sum of an embedding for each whole number of an observation, a projection of its other numbers, and an
    embedding of the action before it. The paper does not say that agents know their last action; without it they could
    not tell where they are.

    Args:
        sizes, numbers: of observations.Layout
        actions: A
        width: C
    """

    def __init__(self, sizes: list[int], numbers: int, actions: int, width: int):
        super().__init__()
        sizes = [*sizes, actions + 1]
        self.register_buffer("offsets", torch.tensor([0, *sizes[:-1]]).cumsum(0), persistent=False)
        self.table = nn.EmbeddingBag(sum(sizes), width, mode="sum")
        nn.init.normal_(self.table.weight, std=(width * len(sizes)) ** -0.5)
        self.project = nn.Linear(numbers, width) if numbers else None

    def forward(self, steps: Steps) -> Tensor:
        """Steps [...] -> [..., C]"""
        whole = torch.cat([steps.whole, steps.previous.unsqueeze(-1)], -1) + self.offsets
        x = self.table(whole.flatten(0, -2)).view(*whole.shape[:-1], -1)
        return x if self.project is None else x + self.project(steps.numbers.to(x.dtype))


class Agent(BaseFairseqModel):
    """
    Args:
        embed: Steps [N, T] -> [N, T, C]
        body: an ``EpisodeBody`` (modules/contracts.py)
        width: C
        actions: A
    """

    def __init__(self, embed: nn.Module, body: nn.Module, width: int, actions: int):
        super().__init__()
        self.embed, self.body = embed, body
        self.policy, self.value = nn.Linear(width, actions), nn.Linear(width, 1)
        for head in (self.policy, self.value):  # at first all actions are equally likely
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    @property
    def device(self) -> torch.device:
        return self.policy.weight.device

    def forward(self, rollout: Rollout):
        """A block of T = M + 1 observations.

        Returns:
            Logits of the policy [N, T, A], values [N, T], and the memory after M steps.
        """
        steps = rollout.steps
        x = self.embed(steps)
        last = torch.ones(len(x), dtype=torch.long, device=x.device)  # observation M + 1 belongs to the next block
        if rollout.recorded is not None:
            y, memory = self.body.finish(rollout.recorded, x, last)
        elif not steps.begins[:, 1:-1].any():
            y, memory = self.body(x, rollout.memory, last)
        else:
            y, memory = self.by_episode(x, steps.begins, rollout.memory)
        return self.policy(y), self.value(y).squeeze(-1), memory

    def by_episode(self, x: Tensor, begins: Tensor, memory):
        """Embeddings [N, T, C] and the beginnings of episodes [N, T] -> outputs [N, T, C], and the memory after."""
        episodes = Episodes(begins)
        if memory is None:  # all rows begin with an empty one
            _, memory = self.body(x[:, :1])
            memory = memory_of_rows(memory, episodes.environment, torch.ones_like(episodes.fresh))
        else:
            memory = memory_of_rows(memory, episodes.environment, episodes.fresh)
        y, memory = self.body(episodes.cut(x), memory, episodes.padding(unfinished=1))
        return episodes.join(y), memory_of_rows(
            memory, episodes.last, torch.zeros_like(episodes.last, dtype=torch.bool)
        )

    def start_acting(self, memory, copies: int, steps: int) -> "Acting":
        return Acting(self, memory, copies, steps)


class Acting:
    """An agent while it acts, step by step.

    Attributes:
        recorded: the body's state, if it has recorded the steps for learning; None if they have to be done again
    """

    def __init__(self, agent: Agent, memory, copies: int, steps: int):
        self.agent, self.body, self.recorded = agent, agent.body, None
        like = agent.policy.weight.new_empty(copies, agent.policy.in_features)
        if agent.training and getattr(agent.body, "records", False):
            self.state = self.recorded = agent.body.start_recorded(memory, like, steps)
        else:
            with torch.no_grad():
                self.state = agent.body.start(memory, like)
        self.at_start = True

    @torch.no_grad()
    def logits(self, seen: Steps) -> Tensor:
        """What the agents see now [N] -> logits of their actions [N, A]."""
        if not self.at_start and seen.begins.any():
            self.body.restart(self.state, seen.begins)
            self.recorded = None
        self.at_start = False
        return self.agent.policy(self.body.step(self.state, self.agent.embed(seen)))

    @torch.no_grad()
    def read_last(self, seen: Steps) -> None:
        """Read the observation after the block, if the steps are recorded. Its value does not count where it begins an
        episode."""
        if self.recorded is not None:
            self.body.step(self.state, self.agent.embed(seen))
