"""Agents with a memory (Fan et al., 2020, sections 7.2 and 7.3): an observation is embedded, goes through the body of a
language model over streams, and gives the policy and the value. The body is Feedback, Transformer, LSTM or GRU.

N environments, T steps of a block, P parameters of the distribution of actions, C width.
"""

from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor, nn
from torch.nn.functional import pad

from fairseq_plugins.agents.distributions import Distribution
from fairseq_plugins.agents.rollout import CutOff, Episodes, Rollout, Steps, memory_of_rows
from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.architectures import (
    attention_sizes,
    checked_options,
    help_of,
    register_architecture,
    sizes,
)
from fairseq_plugins.models.common.feedback import FeedbackConfig, KeysAndValues, feedback_body, kv_option
from fairseq_plugins.models.common.span import span
from fairseq_plugins.modules.recurrent import GRUStack, LSTMStack
from fairseq_plugins.modules.span.attention import SpanConfig
from fairseq_plugins.modules.span.stack import SpanStack
from fairseq_plugins.options.checks import check_heads, naming_flags
from fairseq_plugins.options.fields import option


class SeenEmbedding(nn.Module):
    """The sum of an embedding for each whole number, and a projection of the other numbers, of an observation and of
    the action before it. The paper does not say that agents know their last action; without it they could not tell
    where they are.

    Args:
        sizes, numbers: of observations.Layout
        distribution: of actions
        width: C
    """

    offsets: Tensor

    def __init__(self, sizes: list[int], numbers: int, distribution: Distribution, width: int):
        super().__init__()
        sizes = [*sizes, *(size + 1 for size in distribution.sizes)]
        numbers += distribution.numbers
        self.register_buffer("offsets", torch.tensor([0, *sizes]).cumsum(0)[:-1], persistent=False)
        self.table = nn.EmbeddingBag(sum(sizes), width, mode="sum") if sizes else None
        if self.table is not None:
            nn.init.normal_(self.table.weight, std=(width * len(sizes)) ** -0.5)
        self.project = nn.Linear(numbers, width) if numbers else None

    def forward(self, steps: Steps) -> Tensor:
        """Steps [...] -> [..., C]"""
        whole, numbers, previous = steps.whole, steps.numbers, steps.previous.reshape(*steps.begins.shape, -1)
        if previous.is_floating_point():
            numbers = torch.cat([numbers, previous], -1)
        else:
            whole = torch.cat([whole, previous], -1)
        parts = []
        if self.table is not None:
            parts.append(self.table((whole + self.offsets).flatten(0, -2)).view(*whole.shape[:-1], -1))
        if self.project is not None:
            parts.append(self.project(numbers.to(self.project.weight.dtype)))
        return sum(parts[1:], parts[0])


class Agent(BaseFairseqModel):
    """An agent of --arch. A subclass builds its body.

    Attributes:
        body: an ``EpisodeBody`` (modules/contracts.py); one that ``records`` keeps the steps of acting for learning
    """

    body: Any

    def __init__(self, embed: SeenEmbedding, body: nn.Module, width: int, parameters: int):
        super().__init__()
        self.embed, self.body = embed, body
        self.policy, self.value = nn.Linear(width, parameters), nn.Linear(width, 1)
        for head in (self.policy, self.value):  # at first all actions are equally likely
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    @classmethod
    def build_body(cls, config) -> nn.Module:
        raise NotImplementedError

    @classmethod
    def build_model(cls, config, task):
        if not hasattr(task, "agent_sizes"):
            raise UserError(f"--arch {config._name} is an agent; it needs --task reinforcement_learning.")
        config = checked_options(cls, config)
        if hasattr(config, "decoder_attention_heads"):
            check_heads(config)
        width, (sizes, numbers, distribution) = config.decoder_embed_dim, task.agent_sizes()
        with naming_flags(help_of(config)):
            body = cls.build_body(config)
        return cls(SeenEmbedding(sizes, numbers, distribution, width), body, width, distribution.parameters)

    @property
    def device(self) -> torch.device:
        return self.policy.weight.device

    def forward(self, rollout: Rollout):
        """A block of T = M + 1 observations.

        Returns:
            Parameters of the policy [N, T, P], values [N, T], and the memory after M steps.
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
        y, memory = self.body(episodes.cut(x), self.before(episodes, x, memory), episodes.padding(unfinished=1))
        return episodes.join(y), memory_of_rows(memory, episodes.last)

    def before(self, episodes: Episodes, x: Tensor, memory):
        """The memory of the rows of a block before it."""
        fresh = episodes.fresh
        if memory is None:  # all rows begin with an empty one
            _, memory = self.body(x[:, :1])
            fresh = torch.ones_like(fresh)
        return memory_of_rows(memory, episodes.environment, fresh)

    @torch.no_grad()
    def last_values(self, rollout: Rollout, cut: CutOff) -> Tensor:
        """The values of the states that were cut off in a block, at the steps that led to them [N, M]; 0 elsewhere."""
        x = self.embed(rollout.steps)
        episodes, each = Episodes(rollout.steps.begins), torch.arange(len(cut.step), device=x.device)
        rows = episodes.row[cut.environment, cut.step]
        end = episodes.length[rows]
        with_last = pad(episodes.cut(x)[rows], (0, 0, 0, 1))
        with_last[each, end] = self.embed(cut.last)
        memory = memory_of_rows(self.before(episodes, x, rollout.memory), rows)
        y, _ = self.body(with_last, memory, with_last.size(1) - 1 - end)
        values = self.value(y[each, end]).squeeze(-1)
        return values.new_zeros(rollout.ends.shape).index_put((cut.environment, cut.step), values)

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
        """Present observations [N] -> parameters of the policy [N, P]."""
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


@dataclass
class AgentConfig(FairseqDataclass):
    decoder_embed_dim: int = option(256, "width of the model")
    decoder_layers: int = option(2, "number of layers")


@dataclass
class AttentionAgentConfig(AgentConfig):
    decoder_ffn_embed_dim: int = option(1024, "width of feed-forward layers")
    decoder_attention_heads: int = option(4, "number of attention heads")
    decoder_head_dim: Optional[int] = option(
        None, "width of a head (default: --decoder-embed-dim divided by the number of heads)"
    )
    attention_span: int = option(200, "number of earlier steps that a head attends to")


@dataclass
class FeedbackAgentConfig(FeedbackConfig, AttentionAgentConfig):
    feedback_kv: KeysAndValues = kv_option("shared")


@register_model("feedback_agent", dataclass=FeedbackAgentConfig)
class FeedbackAgent(Agent):
    """Acting computes the recurrence, and learning differentiates it without doing it again."""

    @classmethod
    def build_body(cls, config):
        return feedback_body(config, pre_norm=True)


@register_model("span_transformer_agent", dataclass=AttentionAgentConfig)
class SpanTransformerAgent(Agent):
    """The Transformer of the same size: attention to the last --attention-span steps."""

    @classmethod
    def build_body(cls, config):
        ffn = config.decoder_ffn_embed_dim
        layer = SpanConfig(**attention_sizes(config), span=config.attention_span, ffn_dim=ffn, pre_norm=True)
        return SpanStack(layer, config.decoder_layers)


@register_model("lstm_agent", dataclass=AgentConfig)
class LSTMAgent(Agent):
    """An LSTM."""

    @classmethod
    def build_body(cls, config):
        return LSTMStack(config.decoder_embed_dim, config.decoder_layers)


@register_model("gru_agent", dataclass=AgentConfig)
class GRUAgent(Agent):
    """A GRU, which POPGym's paper found to be best over all its environments (Morad et al., 2023)."""

    @classmethod
    def build_body(cls, config):
        return GRUStack(config.decoder_embed_dim, config.decoder_layers)


ARCHITECTURES = {  # the paper gives no feed-forward width: four times the width of the model here
    "maze": {**sizes(2, 256, 1024, heads=4), **span(200)},
    "water_maze": {**sizes(2, 64, 256, heads=1), **span(200)},
    "tiny": {**sizes(2, 32, 128, heads=2), **span(16)},  # for tests; not from a paper
}
RECURRENT_ARCHITECTURES = {"maze": (3, 256), "water_maze": (2, 64), "tiny": (2, 32)}
for name, defaults in ARCHITECTURES.items():
    register_architecture("feedback_agent", f"feedback_agent_{name}", **defaults)
    register_architecture("span_transformer_agent", f"span_transformer_agent_{name}", **defaults)
for name, (layers, width) in RECURRENT_ARCHITECTURES.items():
    for model in ("lstm_agent", "gru_agent"):
        register_architecture(model, f"{model}_{name}", decoder_layers=layers, decoder_embed_dim=width)
