"""Models of the Feedback paper (Fan et al., 2020): their flags, the body of those over streams, and the sizes of Table
9."""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from fairseq_plugins.models.common.architectures import attention_sizes, sizes
from fairseq_plugins.models.common.embeddings import WIKITEXT103_WORDS
from fairseq_plugins.models.common.span import PRE_NORM, dropout, span
from fairseq_plugins.modules.feedback.engine.chunks import Chunks
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stack import ENGINES, FORMER_ENGINES, KEYS_AND_VALUES
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow
from fairseq_plugins.options.fields import option

KeysAndValues: Any = ChoiceEnum(list(KEYS_AND_VALUES))
Engine: Any = ChoiceEnum([*ENGINES, *FORMER_ENGINES])


@dataclass
class FeedbackConfig(FairseqDataclass):
    """The flags of the Feedback Transformer beside those of fairseq's Transformer."""

    feedback_memory: str = option(
        "weighted",
        "the content of the memory of a time step: weighted (a learned sum of all layers), top, average, layer-I (one"
        " layer; layer-0 is the embedding), recurrent (each layer attends to itself and those below)",
    )
    feedback_kv: KeysAndValues = option(
        "shared", "one key and one value matrix for all decoder layers, or one per layer"
    )
    feedback_engine: Engine = option(
        "fast",
        "how the recurrence is computed: fast has CUDA graphs on a GPU and compiled decoding on a CPU, eager has"
        " neither; of the names of earlier versions fused is fast and reference is eager",
    )


def kv_option(default: str) -> Any:
    """--feedback-kv of a model without an encoder."""
    return option(default, "one key and one value matrix for all layers, or one per layer")


def feedback_body(
    config,
    pre_norm: bool,
    dropout: float = 0.0,
    normalise_twice: bool = False,
    chunks: Chunks | None = None,
    **adaptive: Any,
) -> FeedbackStream:
    """The body that the options of a ``FeedbackConfig``, its sizes and its span describe.

    Args:
        dropout: of attention weights and of feed-forward activations
        normalise_twice, chunks: of the FeedbackStream
        adaptive: ``ramp`` and ``initial`` of the MemoryWindow
    """
    layer = FeedbackLayerConfig(
        **attention_sizes(config),
        ffn_dim=config.decoder_ffn_embed_dim,
        attention_bias=False,
        pre_norm=pre_norm,
        attention_dropout=dropout,
        activation_dropout=dropout,
    )
    window = MemoryWindow(config.attention_span, config.decoder_layers, layer.heads, layer.head_dim, **adaptive)
    memory, kv, engine = config.feedback_memory, config.feedback_kv, config.feedback_engine
    return FeedbackStream(layer, config.decoder_layers, window, memory, kv, engine, normalise_twice, chunks)


# Table 9: the Feedback Transformers, and the Transformers of the same sizes that they are compared with
TABLE_9 = {
    "char_ptb": {**sizes(6, 384, 1536, heads=4), **span(512), **dropout(0.5), **PRE_NORM},
    "enwik8": {**sizes(12, 512, 4096, head_dim=128), **span(8192, 5e-7), **dropout(0.5), **PRE_NORM},
    "wikitext103_small": {
        **sizes(4, 512, 4096, head_dim=128),
        **span(512),
        **dropout(0.1, 0.1),
        **WIKITEXT103_WORDS,
        **PRE_NORM,
    },
    "wikitext103_large": {
        **sizes(8, 1024, 4096),
        **span(2048, 1e-5),
        **dropout(0.3, 0.2),
        **WIKITEXT103_WORDS,
        **PRE_NORM,
    },
    "toy": {**sizes(4, 256, 1024, heads=4), **span(100), **dropout(0.2), **PRE_NORM},
}
