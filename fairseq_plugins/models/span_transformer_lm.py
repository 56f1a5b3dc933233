"""The papers' baseline: a Transformer over streams with feed-forward layers and a fixed or an adaptive span."""

from dataclasses import dataclass

from fairseq.models import register_model

from fairseq_plugins.models.common.architectures import register_architecture, sizes
from fairseq_plugins.models.common.embeddings import WIKITEXT103_WORDS
from fairseq_plugins.models.common.feedback import TABLE_9
from fairseq_plugins.models.common.span import PRE_NORM, SpanLanguageModel, SpanStackConfig, dropout, span, span_config
from fairseq_plugins.modules.span.stack import SpanStack
from fairseq_plugins.options.fields import option


@dataclass
class SpanTransformerConfig(SpanStackConfig):
    decoder_ffn_embed_dim: int = option(2048, "width of feed-forward layers")


@register_model("span_transformer_lm", dataclass=SpanTransformerConfig)
class SpanTransformerLanguageModel(SpanLanguageModel):
    """Each layer is self-attention to a span of earlier tokens, then a feed-forward layer."""

    @classmethod
    def build_body(cls, args):
        return SpanStack(span_config(args, ffn_dim=args.decoder_ffn_embed_dim), args.decoder_layers)


WIKITEXT103 = {**span(2048, 5e-7), **dropout(0.3, 0.1), **WIKITEXT103_WORDS}
ARCHITECTURES = {
    "tiny": {**sizes(2, 64, 128, heads=2), **span(32)},  # for tests; not from a paper
    # Sukhbaatar et al., 2019
    "enwik8_small": {**sizes(12, 512, 2048), **span(8192, 5e-7), **dropout(0.3)},
    "enwik8_large": {**sizes(24, 768, 4096), **span(8192, 5e-7), **dropout(0.4)},
    # the all-attention paper: Table 2, footnote 1, with the span and dropout of the model beside it; appendix B
    "text8_large": {**sizes(22, 512, 4096), **span(8192, 1e-7), **dropout(0.4)},
    "wikitext103_22": {**sizes(22, 512, 4096), **WIKITEXT103},
    "wikitext103_36": {**sizes(36, 512, 2048), **WIKITEXT103},
    # the Feedback paper: for each Feedback Transformer a Transformer of its sizes; one of 8 layers (section 4.1.2)
    **{f"twin_{name}": options for name, options in TABLE_9.items()},
    "twin_toy_8": {**sizes(8, 256, 1024, heads=4), **span(100), **dropout(0.2), **PRE_NORM},
}
for name, defaults in ARCHITECTURES.items():
    register_architecture("span_transformer_lm", f"span_transformer_lm_{name}", **defaults)
