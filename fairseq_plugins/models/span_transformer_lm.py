"""The papers' own baselines: a Transformer over streams with feed-forward layers, fixed or adaptive span."""

from dataclasses import dataclass, field

from fairseq.models import register_model

from fairseq_plugins.models.common.architectures import register_architecture
from fairseq_plugins.models.common.embeddings import WIKITEXT103_WORDS
from fairseq_plugins.models.common.span import SpanLanguageModel, SpanLanguageModelConfig
from fairseq_plugins.modules.span.attention import SpanConfig
from fairseq_plugins.modules.span.stack import SpanStack


@dataclass
class SpanTransformerConfig(SpanLanguageModelConfig):
    decoder_ffn_embed_dim: int = field(default=2048, metadata={"help": "width of feed-forward layers"})
    value_positions: bool = field(
        default=False,
        metadata={"help": "add positions to values too (all-attention paper, equations 4 and 13; its code does not)"},
    )
    cross_head_p: float = field(
        default=0.0, metadata={"help": "probability that a layer's heads look at one another's keys in training"}
    )


def span_config(args, **sizes) -> SpanConfig:
    """The modules' configuration from the command line's."""
    return SpanConfig(
        embed_dim=args.decoder_embed_dim,
        heads=args.decoder_attention_heads,
        span=args.attention_span,
        head_dim=args.decoder_head_dim,
        ramp=args.span_ramp if args.adaptive_span else None,
        initial_span=args.span_init,
        pre_norm=args.decoder_normalize_before,
        value_positions=args.value_positions,
        dropout=args.dropout,
        cross_head_p=args.cross_head_p,
        **sizes,
    )


@register_model("span_transformer_lm", dataclass=SpanTransformerConfig)
class SpanTransformerLanguageModel(SpanLanguageModel):
    """Self-attention to a span of tokens before each, then a feed-forward layer."""

    SIZES = (*SpanLanguageModel.SIZES, "decoder_ffn_embed_dim")
    RATES = (*SpanLanguageModel.RATES, "cross_head_p")

    @classmethod
    def build_body(cls, args):
        return SpanStack(span_config(args, ffn_dim=args.decoder_ffn_embed_dim), args.decoder_layers)


def sizes(layers: int, width: int, ffn: int, heads: int = 8, head_dim: int | None = None) -> dict:
    return {
        "decoder_layers": layers,
        "decoder_embed_dim": width,
        "decoder_ffn_embed_dim": ffn,
        "decoder_attention_heads": heads,
        "decoder_head_dim": head_dim,
    }


def span(length: int, loss: float | None = None) -> dict:
    """A fixed span, or with a loss an adaptive one."""
    return (
        {"attention_span": length}
        if loss is None
        else {"attention_span": length, "adaptive_span": True, "span_loss": loss}
    )


def dropout(rate: float, embeddings: float = 0.0) -> dict:
    """The last rate is that of embeddings and of the top layer's output."""
    return {"dropout": rate, "embed_dropout": embeddings, "output_dropout": embeddings}


PRE_NORM = {"decoder_normalize_before": True}
WIKITEXT103 = {**span(2048, 5e-7), **dropout(0.3, 0.1), **WIKITEXT103_WORDS}
ARCHITECTURES = {
    "tiny": {**sizes(2, 64, 128, heads=2), **span(32)},  # for tests; of no paper
    # Sukhbaatar et al., 2019
    "enwik8_small": {**sizes(12, 512, 2048), **span(8192, 5e-7), **dropout(0.3)},
    "enwik8_large": {**sizes(24, 768, 4096), **span(8192, 5e-7), **dropout(0.4)},
    # the all-attention paper: Table 2, footnote 1, with span and dropout of the model it stands beside; appendix B
    "text8_large": {**sizes(22, 512, 4096), **span(8192, 1e-7), **dropout(0.4)},
    "wikitext103_22": {**sizes(22, 512, 4096), **WIKITEXT103},
    "wikitext103_36": {**sizes(36, 512, 2048), **WIKITEXT103},
    # the Feedback paper, Table 9: the Transformers of the same sizes; that of 8 layers is in section 4.1.2
    "twin_char_ptb": {**sizes(6, 384, 1536, heads=4), **span(512), **dropout(0.5), **PRE_NORM},
    "twin_enwik8": {**sizes(12, 512, 4096, head_dim=128), **span(8192, 5e-7), **dropout(0.5), **PRE_NORM},
    "twin_wikitext103_small": {
        **sizes(4, 512, 4096, head_dim=128),
        **span(512),
        **dropout(0.1, 0.1),
        **WIKITEXT103_WORDS,
        **PRE_NORM,
    },
    "twin_wikitext103_large": {
        **sizes(8, 1024, 4096),
        **span(2048, 1e-5),
        **dropout(0.3, 0.2),
        **WIKITEXT103_WORDS,
        **PRE_NORM,
    },
    "twin_toy": {**sizes(4, 256, 1024, heads=4), **span(100), **dropout(0.2), **PRE_NORM},
    "twin_toy_8": {**sizes(8, 256, 1024, heads=4), **span(100), **dropout(0.2), **PRE_NORM},
}
for name, defaults in ARCHITECTURES.items():
    register_architecture("span_transformer_lm", f"span_transformer_lm_{name}", **defaults)
