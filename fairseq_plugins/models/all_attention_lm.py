"""Language models whose layers are attention only: persistent vectors replace feed-forward layers.

N persistent vectors of each head. Paper: "Augmenting Self-attention with Persistent Memory" (Sukhbaatar et al., 2019).
"""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum
from fairseq.models import register_model

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.architectures import register_architecture
from fairseq_plugins.models.common.embeddings import WIKITEXT103_WORDS
from fairseq_plugins.models.common.span import SpanLanguageModel, SpanStackConfig, dropout, span, span_config
from fairseq_plugins.modules.span.stack import INTEGRATIONS, SpanStack, integration
from fairseq_plugins.options.fields import option

Integration: Any = ChoiceEnum(list(INTEGRATIONS))


@dataclass
class AllAttentionConfig(SpanStackConfig):
    persistent_vectors: int = option(1024, "N, number of persistent vectors of each head; 0: none")
    persistent_integration: Integration = option(
        "all-attn", "how heads attend to persistent vectors (section 5.3 of the paper)"
    )


@register_model("all_attention_lm", dataclass=AllAttentionConfig)
class AllAttentionLanguageModel(SpanLanguageModel):
    """Each token attends to a span of earlier tokens and to persistent vectors."""

    @classmethod
    def build_body(cls, args):
        size, name, heads = args.persistent_vectors, str(args.persistent_integration), args.decoder_attention_heads
        if name == "head-split" and size and heads % 2:
            raise UserError(
                f"--persistent-integration head-split needs an even number of heads; choose --decoder-attention-heads"
                f" {heads + 1}, for example."
            )
        return SpanStack(span_config(args, persistent=size), args.decoder_layers, integration(name, size))


def sizes(layers: int, persistent: int, width: int = 512, heads: int = 8) -> dict:
    return {
        "decoder_layers": layers,
        "persistent_vectors": persistent,
        "decoder_embed_dim": width,
        "decoder_attention_heads": heads,
    }


SMALL = {**sizes(18, 1024), **span(8192, 1e-7), **dropout(0.3)}
LARGE = {**sizes(36, 2048), **span(8192, 1e-7), **dropout(0.4)}
ARCHITECTURES = {
    "tiny": {**sizes(2, 64, width=64, heads=2), **span(32)},  # for tests; not from a paper
    # section 5.1
    "enwik8_small": SMALL,
    "enwik8_large": LARGE,
    "text8_small": SMALL,
    "text8_large": LARGE,
    "wikitext103": {**sizes(36, 2048), **span(2048, 5e-7), **dropout(0.3, 0.1), **WIKITEXT103_WORDS},
    # section 5.3: as text8_large, with sizes that give 101M parameters; the paper says "the same number"
    "ff_attn": {**LARGE, **sizes(24, 3072), "persistent_integration": "ff-attn"},
}
for name, defaults in ARCHITECTURES.items():
    register_architecture("all_attention_lm", f"all_attention_lm_{name}", **defaults)
