"""The agents of the Feedback paper (Fan et al., 2020, sections 7.2 and 7.3): Feedback, Transformer and LSTM."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from torch import nn

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.agent import Agent, SeenEmbedding
from fairseq_plugins.models.common.architectures import register_architecture, with_defaults
from fairseq_plugins.models.common.feedback import FeedbackConfig
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stack import KEYS_AND_VALUES
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow
from fairseq_plugins.modules.lstm import LSTMStack
from fairseq_plugins.modules.span.attention import SpanConfig
from fairseq_plugins.modules.span.stack import SpanStack
from fairseq_plugins.options.checks import check_fields, check_heads


@dataclass
class AgentConfig(FairseqDataclass):
    decoder_embed_dim: int = field(default=256, metadata={"help": "width of the model"})
    decoder_layers: int = field(default=2, metadata={"help": "number of layers"})


@dataclass
class AttentionAgentConfig(AgentConfig):
    decoder_ffn_embed_dim: int = field(default=1024, metadata={"help": "width of feed-forward layers"})
    decoder_attention_heads: int = field(default=4, metadata={"help": "number of attention heads"})
    # Optional: fairseq does not understand `int | None`
    decoder_head_dim: Optional[int] = field(
        default=None, metadata={"help": "width of a head (default: --decoder-embed-dim divided by the number of heads)"}
    )
    attention_span: int = field(default=200, metadata={"help": "number of earlier steps that a head attends to"})


@dataclass
class FeedbackAgentConfig(FeedbackConfig, AttentionAgentConfig):
    feedback_kv: ChoiceEnum(list(KEYS_AND_VALUES)) = field(
        default="shared", metadata={"help": "one key and one value matrix for all layers, or one per layer"}
    )


class BuiltAgent(Agent):
    """An agent that --arch names; a subclass builds the body."""

    @classmethod
    def build_body(cls, config) -> nn.Module:
        raise NotImplementedError

    @classmethod
    def build_model(cls, config, task):
        if not hasattr(task, "agent_sizes"):
            raise UserError(f"--arch {config._name} is an agent; it needs --task reinforcement_learning.")
        options = getattr(cls, "__dataclass")
        config = with_defaults(config, options())
        check_fields(config, options)
        if issubclass(options, AttentionAgentConfig):
            check_heads(config)
        sizes, numbers, actions = task.agent_sizes()
        width = config.decoder_embed_dim
        try:
            body = cls.build_body(config)
        except ValueError as error:
            raise UserError(f"{error}; see the model's flags (fairseq-train --arch {config._name} --help).") from error
        return cls(SeenEmbedding(sizes, numbers, actions, width), body, width, actions)


@register_model("feedback_agent", dataclass=FeedbackAgentConfig)
class FeedbackAgent(BuiltAgent):
    """Acting computes the recurrence, and learning differentiates it without doing it again."""

    @classmethod
    def build_body(cls, config):
        layer = FeedbackLayerConfig(
            embed_dim=config.decoder_embed_dim,
            ffn_dim=config.decoder_ffn_embed_dim,
            heads=config.decoder_attention_heads,
            head_dim=config.decoder_head_dim,
            attention_bias=False,
            pre_norm=True,
        )
        window = MemoryWindow(config.attention_span, config.decoder_layers, layer.heads, layer.head_dim)
        return FeedbackStream(
            layer, config.decoder_layers, window, config.feedback_memory, config.feedback_kv, config.feedback_engine
        )


@register_model("span_transformer_agent", dataclass=AttentionAgentConfig)
class SpanTransformerAgent(BuiltAgent):
    """The Transformer of the same size: attention to the last --attention-span steps."""

    @classmethod
    def build_body(cls, config):
        layer = SpanConfig(
            embed_dim=config.decoder_embed_dim,
            heads=config.decoder_attention_heads,
            span=config.attention_span,
            head_dim=config.decoder_head_dim,
            ffn_dim=config.decoder_ffn_embed_dim,
            pre_norm=True,
        )
        return SpanStack(layer, config.decoder_layers)


@register_model("lstm_agent", dataclass=AgentConfig)
class LSTMAgent(BuiltAgent):
    """An LSTM."""

    @classmethod
    def build_body(cls, config):
        return LSTMStack(config.decoder_embed_dim, config.decoder_layers)


def sizes(layers: int, width: int, heads: int) -> dict:
    """The paper gives layers, width, heads and span, but not the feed-forward width: four times the width here."""
    return {
        "decoder_layers": layers,
        "decoder_embed_dim": width,
        "decoder_ffn_embed_dim": 4 * width,
        "decoder_attention_heads": heads,
        "attention_span": 200,
    }


ARCHITECTURES = {
    "maze": sizes(2, 256, heads=4),
    "water_maze": sizes(2, 64, heads=1),
    "tiny": {**sizes(2, 32, heads=2), "attention_span": 16},  # for tests; not from a paper
}
LSTM_ARCHITECTURES = {"maze": (3, 256), "water_maze": (2, 64), "tiny": (2, 32)}
for name, defaults in ARCHITECTURES.items():
    register_architecture("feedback_agent", f"feedback_agent_{name}", **defaults)
    register_architecture("span_transformer_agent", f"span_transformer_agent_{name}", **defaults)
for name, (layers, width) in LSTM_ARCHITECTURES.items():
    register_architecture("lstm_agent", f"lstm_agent_{name}", decoder_layers=layers, decoder_embed_dim=width)
