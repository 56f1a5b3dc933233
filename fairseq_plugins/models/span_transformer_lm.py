"""The papers' own baseline: a Transformer over streams with feed-forward layers, fixed or adaptive span."""

from dataclasses import dataclass, field

from fairseq.models import register_model

from fairseq_plugins.models.streaming_lm import (
    StreamingLanguageModel,
    StreamingLanguageModelConfig,
    register_architecture,
)
from fairseq_plugins.modules.span_attention import SpanConfig
from fairseq_plugins.modules.span_stack import TRANSFORMER, SpanStack


@dataclass
class SpanTransformerConfig(StreamingLanguageModelConfig):
    value_positions: bool = field(
        default=False, metadata={"help": "add positions to values too (all-attention paper, equation 13)"}
    )


def span_config(args, **sizes) -> SpanConfig:
    """The modules' configuration from the command line's."""
    return SpanConfig(
        embed_dim=args.decoder_embed_dim,
        heads=args.decoder_attention_heads,
        span=args.attention_span,
        head_dim=args.decoder_head_dim,
        ffn_dim=args.decoder_ffn_embed_dim,
        ramp=args.span_ramp if args.adaptive_span else None,
        initial_span=args.span_init,
        pre_norm=args.decoder_normalize_before,
        value_positions=args.value_positions,
        dropout=args.dropout,
        **sizes,
    )


@register_model("span_transformer_lm", dataclass=SpanTransformerConfig)
class SpanTransformerLanguageModel(StreamingLanguageModel):
    """Self-attention to a span of tokens before each, then a feed-forward layer."""

    @classmethod
    def build_body(cls, config):
        return SpanStack(span_config(config), config.decoder_layers, TRANSFORMER)


def sizes(layers: int, width: int, ffn: int, heads: int = 8) -> dict:
    return {
        "decoder_layers": layers,
        "decoder_embed_dim": width,
        "decoder_ffn_embed_dim": ffn,
        "decoder_attention_heads": heads,
    }


register_architecture("span_transformer_lm", "span_transformer_lm_tiny", **sizes(2, 64, 128, heads=2), attention_span=32)
