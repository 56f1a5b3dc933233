"""Language models whose heads attend to a fixed number of earlier tokens, or learn this number (adaptive span).

B streams, M block length, C width.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.models.common.architectures import attention_sizes
from fairseq_plugins.models.common.base import StreamingLanguageModel, StreamingLanguageModelConfig
from fairseq_plugins.models.common.decoder import StreamingDecoder
from fairseq_plugins.modules.common.adaptive_span import AdaptiveSpan
from fairseq_plugins.modules.span.attention import SpanConfig
from fairseq_plugins.options.checks import check_heads
from fairseq_plugins.options.fields import option


@dataclass
class SpanLanguageModelConfig(StreamingLanguageModelConfig):
    attention_span: int = option(512, "maximum number of earlier tokens that a head attends to")
    adaptive_span: bool = option(False, "each head learns its own span, up to --attention-span")
    span_loss: float = option(0.0, "coefficient of the loss on adaptive spans")
    span_ramp: int = option(32, "width of the soft edge of adaptive spans, in tokens")
    span_init: float = option(0.0, "initial value of adaptive spans, as a fraction of --attention-span")
    log_learned: bool = option(
        False, "log the span of each head, not only mean and maximum, and the layers' weights in a feedback memory"
    )


@dataclass
class SpanStackConfig(SpanLanguageModelConfig):
    """The flags of models whose body is a ``SpanStack``."""

    value_positions: bool = option(
        False, "add positions to values, too (all-attention paper, equations 4 and 13; its code does not)"
    )
    cross_head_p: float = option(
        0.0, "probability, in training, that each head of a layer attends to another head's keys, values and positions"
    )


class SpanLanguageModel(StreamingLanguageModel):
    """A language model with --attention-span, and adaptive spans with --adaptive-span."""

    def __init__(self, decoder: StreamingDecoder, config: SpanLanguageModelConfig):
        super().__init__(decoder, config)
        self.memory_length = config.attention_span
        self.trains_spans = config.span_loss > 0 and bool(self.adaptive_spans())

    @classmethod
    def check_options(cls, config):
        super().check_options(config)
        check_heads(config)
        for name in ("span_loss", "span_init", "span_ramp"):
            if not config.adaptive_span and getattr(config, name) != getattr(SpanLanguageModelConfig, name):
                raise UserError(f"{flag(name)} needs --adaptive-span; add it, or leave {flag(name)} out.")

    def adaptive_spans(self) -> list[AdaptiveSpan]:
        return [module for module in self.modules() if isinstance(module, AdaptiveSpan)]

    def span_loss(self) -> Tensor | None:
        """--span-loss times the heads' mean span, summed over the layers; None without adaptive spans."""
        losses = [span.loss(self.config.span_loss) for span in self.adaptive_spans()]
        return sum(losses[1:], losses[0]) if losses else None

    def after_update(self, masters: Mapping[nn.Parameter, Tensor]) -> None:
        """Clamp the spans, since a step of the optimiser may have moved them out of range, and their master copies."""
        for span in self.adaptive_spans():
            span.clamp_(masters.get(span.span_ratio))

    def learned(self) -> dict[str, Tensor]:
        """Mean and maximum of the learned spans in tokens, without the ramp; with --log-learned each head's span."""
        layers = [span.current().float() for span in self.adaptive_spans()]
        if not layers:
            return {}
        every = torch.cat(layers)
        figures = {"span_mean": every.mean(), "span_max": every.max()}
        if self.config.log_learned:
            names = [f"span_{layer}_{head}" for layer, heads in enumerate(layers) for head in range(len(heads))]
            figures.update(zip(names, every.unbind(), strict=True))
        return figures


def span_config(args, **sizes: int) -> SpanConfig:
    """The configuration of layers with span attention, from the options of a SpanStackConfig; ``sizes`` are those of
    the sublayer after the attention."""
    return SpanConfig(
        **attention_sizes(args),
        span=args.attention_span,
        ramp=args.span_ramp if args.adaptive_span else None,
        initial_span=args.span_init,
        pre_norm=args.decoder_normalize_before,
        value_positions=args.value_positions,
        dropout=args.dropout,
        cross_head_p=args.cross_head_p,
        **sizes,
    )


# Parts of published configurations

PRE_NORM = {"decoder_normalize_before": True}


def span(length: int, loss: float | None = None) -> dict:
    """A fixed span; with a loss, an adaptive one."""
    fixed = {"attention_span": length}
    return fixed if loss is None else {**fixed, "adaptive_span": True, "span_loss": loss}


def dropout(rate: float, embeddings: float = 0.0) -> dict:
    """The second rate is for embeddings and for the top layer's output."""
    return {"dropout": rate, "embed_dropout": embeddings, "output_dropout": embeddings}
