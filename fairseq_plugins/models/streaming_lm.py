"""What all language models over streams share: embeddings, output layer, memory, decoding, options.

B streams, M block length, C width, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqLanguageModel, register_model_architecture
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.models.options import check_heads, check_kinds, check_rates, check_sizes
from fairseq_plugins.models.stepwise import StepwiseDecoder
from fairseq_plugins.modules.adaptive_io import AdaptiveInput, AdaptiveSoftmax, log_softmax
from fairseq_plugins.modules.adaptive_span import AdaptiveSpan
from fairseq_plugins.modules.dropout import Dropout
from fairseq_plugins.modules.stream_memory import StreamMemory

UNBOUNDED = 2**31 - 1


@dataclass
class StreamingLanguageModelConfig(FairseqDataclass):
    decoder_embed_dim: int = field(default=512, metadata={"help": "width of the model"})
    decoder_layers: int = field(default=12, metadata={"help": "number of layers"})
    decoder_attention_heads: int = field(default=8, metadata={"help": "number of attention heads"})
    # Optional: fairseq does not understand `int | None`
    decoder_head_dim: Optional[int] = field(
        default=None, metadata={"help": "width of a head, by default --decoder-embed-dim over the number of heads"}
    )
    decoder_normalize_before: bool = field(
        default=False, metadata={"help": "LayerNorm before each sublayer, and one before the output layer"}
    )
    dropout: float = field(
        default=0.0, metadata={"help": "dropout of attention weights and of what feed-forward activations give"}
    )
    embed_dropout: float = field(default=0.0, metadata={"help": "dropout of embeddings"})
    output_dropout: float = field(default=0.0, metadata={"help": "dropout of the top layer's output"})

    share_decoder_input_output_embed: bool = field(
        default=False, metadata={"help": "one table for embeddings and output layer"}
    )
    adaptive_input: bool = field(default=False, metadata={"help": "narrower embeddings for rarer words"})
    adaptive_input_cutoff: Optional[str] = field(
        default=None, metadata={"help": "where clusters of words end, cumulative: 20000,40000,200000 makes four"}
    )
    adaptive_input_factor: float = field(default=4, metadata={"help": "each cluster is as many times narrower"})
    adaptive_softmax_cutoff: Optional[str] = field(
        default=None, metadata={"help": "adaptive softmax, with clusters as of --adaptive-input-cutoff"}
    )
    adaptive_softmax_factor: float = field(default=4, metadata={"help": "as --adaptive-input-factor"})
    tie_adaptive_weights: bool = field(
        default=False, metadata={"help": "one table a cluster for adaptive input and softmax"}
    )
    tie_adaptive_proj: bool = field(
        default=False, metadata={"help": "one projection a cluster too, that of the first included"}
    )


@dataclass
class SpanLanguageModelConfig(StreamingLanguageModelConfig):
    attention_span: int = field(default=512, metadata={"help": "how many tokens back a layer sees, at most"})
    adaptive_span: bool = field(
        default=False, metadata={"help": "every head learns its own span, up to --attention-span"}
    )
    span_loss: float = field(default=0.0, metadata={"help": "coefficient of the adaptive spans' loss"})
    span_ramp: int = field(default=32, metadata={"help": "width of the soft edge of adaptive spans, in tokens"})
    span_init: float = field(
        default=0.0, metadata={"help": "adaptive spans at the start, as a part of --attention-span"}
    )
    log_learned: bool = field(
        default=False,
        metadata={"help": "log the span of every head, not just mean and maximum, and the layers' weights in a memory"},
    )


def register_architecture(model: str, name: str, **defaults: Any) -> None:
    """Give a configuration a name for --arch: what is not set by a flag is as in `defaults`."""

    @register_model_architecture(model, name)
    def architecture(args):
        for option, value in defaults.items():
            setattr(args, option, getattr(args, option, value))


# WikiText-103: four clusters, each four times narrower than the one before, shared by input and output, as in the code
# of the all-attention paper. Its text has three, of 20k, 40k and 200k words; the Feedback paper gives no numbers.
WIKITEXT103_WORDS = {
    "adaptive_input": True,
    "adaptive_input_cutoff": "20000,40000,200000",
    "adaptive_softmax_cutoff": "20000,40000,200000",
    "tie_adaptive_weights": True,
    "tie_adaptive_proj": True,
}


class StreamingDecoder(StepwiseDecoder):
    """Embeddings, a body that does the rest, and an output layer.

    Args:
        embed: tokens [B, M] -> [B, M, C]
        body: forward(x [B, M, C], caches) -> (y [B, M, C], caches); start(caches, like [B, C]) -> state with a method
            `reorder`; step(state, x [B, C]) -> y [B, C]. caches are tensors [B, n, C]; [] at the start of the streams
        output: [..., C] -> [..., V], or an AdaptiveSoftmax
    """

    def __init__(self, dictionary, embed: nn.Module, body: nn.Module, output: nn.Module, embed_dropout, output_dropout):
        super().__init__(dictionary)
        self.embed, self.body, self.output = embed, body, output
        self.embed_dropout, self.output_dropout = Dropout(embed_dropout), Dropout(output_dropout)

    def forward(self, tokens: Tensor, encoder_out=None, incremental_state=None, memory: StreamMemory | None = None):
        """tokens [B, M] -> (logits [B, M, V], or features [B, M, C] with an adaptive softmax; what fairseq looks for).

        With an incremental state: the logits after the last token [B, 1, V]; earlier tokens have been seen before, or
        are now, one by one.
        """
        if incremental_state is not None:
            return self.logits(self.decode(tokens, incremental_state)).unsqueeze(1), {"attn": None}
        features, extra = self.extract_features(tokens, memory=memory)
        if isinstance(self.output, AdaptiveSoftmax):
            return features, {**extra, "features": True}
        return self.output(features), extra

    def extract_features(self, tokens, encoder_out=None, memory: StreamMemory | None = None):
        """tokens [B, M] -> [B, M, C]. The memory is advanced; without one the streams start here."""
        caches = []
        if memory is not None:
            memory.claim(self)
            caches = memory.caches
        y, caches = self.body(self.embed_dropout(self.embed(tokens)), caches)
        if memory is not None:
            memory.advance(caches, tokens.size(1))
        return self.output_dropout(y), {"attn": None}

    def output_layer(self, features: Tensor) -> Tensor:
        return self.logits(features)

    def logits(self, features: Tensor) -> Tensor:
        """[..., C] -> scores of all words [..., V], whose softmax are the probabilities."""
        adaptive = isinstance(self.output, AdaptiveSoftmax)
        return self.output.log_probs(features) if adaptive else self.output(features)

    def embedding(self, token):
        return self.embed_dropout(self.embed(token))

    def start(self, x):
        return self.body.start([], x)

    def step(self, state, x):
        return self.output_dropout(self.body.step(state, x))

    def max_positions(self) -> int:
        return UNBOUNDED


class StreamingLanguageModel(FairseqLanguageModel):
    """A language model whose memory goes from block to block; a family of models gives it a body.

    Attributes:
        memory_length: the most tokens that the memory holds
        SIZES, RATES: options that have to be at least 1, and from 0 to 1
    """

    SIZES = ("decoder_embed_dim", "decoder_layers", "decoder_attention_heads")
    RATES = ("dropout", "embed_dropout", "output_dropout")

    @classmethod
    def build_body(cls, config) -> nn.Module:
        """The body, as of StreamingDecoder. A ValueError says which option does not fit."""
        raise NotImplementedError

    @classmethod
    def build_embeddings(cls, config, vocabulary: int) -> tuple[nn.Module, nn.Module]:
        """Input and output layer, as of StreamingDecoder."""
        return build_embeddings(config, vocabulary)

    @classmethod
    def check_options(cls, config) -> None:
        """Raises UserError for options that no model can honour."""
        check_sizes(config, cls.SIZES)
        check_rates(config, cls.RATES)
        if "decoder_attention_heads" in cls.SIZES:
            check_heads(config)
        check_adaptive_embeddings(config)

    @classmethod
    def build_model(cls, args, task):
        if not getattr(task, "keeps_memory", False):
            raise UserError(
                f"--arch {args._name} needs --task streaming_language_modeling: with another each block would start"
                " from an empty memory."
            )
        options = getattr(cls, "__dataclass")
        args = with_defaults(args, options())
        check_kinds(args, options)
        cls.check_options(args)
        dictionary = task.source_dictionary
        try:
            body = cls.build_body(args)
            embed, output = cls.build_embeddings(args, len(dictionary))
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"{error}; see the model's flags (fairseq-train --arch {args._name} --help).") from error
        decoder = StreamingDecoder(dictionary, embed, body, output, args.embed_dropout, args.output_dropout)
        return cls(decoder, args)

    def forward(self, src_tokens, src_lengths=None, memory: StreamMemory | None = None, incremental_state=None):
        """
        Args:
            src_tokens: [B, M]
            src_lengths: not needed, padding stands at the end
            memory: what came before, advanced here; None: the streams start here and nothing is kept
            incremental_state: fairseq's state of step-by-step decoding

        Returns:
            (logits [B, M, V], or features [B, M, C] with an adaptive softmax; what else fairseq looks for)
        """
        return self.decoder(src_tokens, incremental_state=incremental_state, memory=memory)

    def get_normalized_probs(self, net_output, log_probs, sample=None):
        """Probabilities of all words [..., V], or their logarithms; exact figures are told to sample["figures"]."""
        x, extra = net_output
        lprobs = self.decoder.output.log_probs(x) if extra.get("features") else log_softmax(x)
        if not log_probs:
            return lprobs.exp()
        if sample is not None and "figures" in sample:
            target = sample["target"]
            sample["figures"].add(lprobs.gather(-1, target.unsqueeze(-1)).squeeze(-1), target)
        return lprobs

    def token_nll(self, net_output, target: Tensor) -> Tensor:
        """Negative log-probabilities of targets [B, M] in nats; an adaptive softmax computes only what they need."""
        x, extra = net_output
        if extra.get("features"):
            return self.decoder.output.nll(x, target)
        return F.nll_loss(log_softmax(x).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)


class SpanLanguageModel(StreamingLanguageModel):
    """A language model whose layers look --attention-span tokens back, with adaptive spans if it has any."""

    SIZES = (*StreamingLanguageModel.SIZES, "attention_span", "span_ramp")
    RATES = (*StreamingLanguageModel.RATES, "span_init")

    def __init__(self, decoder: StreamingDecoder, config: SpanLanguageModelConfig):
        super().__init__(decoder)
        self.memory_length = config.attention_span
        self.span_coefficient, self.log_learned = config.span_loss, config.log_learned

    @classmethod
    def check_options(cls, config):
        super().check_options(config)
        if config.span_loss < 0:
            raise UserError(f"--span-loss {config.span_loss} would reward long spans; choose 0 or more.")
        for name in ("span_loss", "span_init", "span_ramp"):
            if not config.adaptive_span and getattr(config, name) != getattr(SpanLanguageModelConfig, name):
                raise UserError(f"{flag(name)} is for adaptive spans; add --adaptive-span or leave it out.")

    def adaptive_spans(self) -> list[AdaptiveSpan]:
        return [module for module in self.modules() if isinstance(module, AdaptiveSpan)]

    def span_loss(self) -> Tensor | None:
        """--span-loss times the heads' mean span, summed over the layers; None without adaptive spans."""
        spans = self.adaptive_spans()
        return sum(span.loss(self.span_coefficient) for span in spans) if spans else None

    def after_update(self, masters: Mapping[nn.Parameter, Tensor]) -> None:
        """Clamp the spans, which an optimiser's step may have carried out of range; where the optimiser updates a copy
        of a parameter in float32, that copy too."""
        for span in self.adaptive_spans():
            span.clamp_(masters.get(span.span_ratio))

    def learned(self) -> dict[str, float]:
        """What is worth a look in the log: learned spans in tokens, without the ramp, their mean and maximum, and each
        head's with --log-learned."""
        layers = [span.current().float() for span in self.adaptive_spans()]
        if not layers:
            return {}
        every = torch.cat(layers).tolist()
        figures = {"span_mean": sum(every) / len(every), "span_max": max(every)}
        if self.log_learned:
            names = [f"span_{layer}_{head}" for layer, heads in enumerate(layers) for head in range(len(heads))]
            figures.update(zip(names, every, strict=True))
        return figures


def with_defaults(args, defaults: FairseqDataclass):
    """Options of a checkpoint, with those that did not exist when it was written."""
    if not isinstance(args, DictConfig):
        return args
    return OmegaConf.merge({name: value for name, value in vars(defaults).items() if name not in args}, args)


def build_embeddings(
    args, vocabulary: int, embed_dim: int | None = None, tie_head: bool = True
) -> tuple[nn.Module, nn.Module]:
    """Input and output layer. Tables are from N(0, 1), not scaled, except one that the output layer shares.

    Embeddings of another width than the model's, embed_dim, are projected. Without tie_head, projections that both
    layers share are so but for the first cluster's.
    """
    width = args.decoder_embed_dim
    shared = args.share_decoder_input_output_embed
    if args.adaptive_input or embed_dim:
        clusters = cutoffs(args.adaptive_input_cutoff), width, args.adaptive_input_factor
        embed = AdaptiveInput(vocabulary, *clusters, embed_dim)
    else:
        embed = nn.Embedding(vocabulary, width)
    if args.adaptive_softmax_cutoff or (embed_dim and shared):
        output = AdaptiveSoftmax(
            vocabulary,
            cutoffs(args.adaptive_softmax_cutoff),
            width,
            args.adaptive_softmax_factor,
            embed if args.tie_adaptive_weights or shared else None,
            args.tie_adaptive_proj or shared,
            tie_head,
            embed_dim,
        )
    else:
        output = nn.Linear(width, vocabulary)
        if shared:
            nn.init.normal_(embed.weight, std=width**-0.5)
            output.weight = embed.weight
    return embed, output


def cutoffs(text: str | None) -> list[int]:
    """ "20000,40000" -> [20000, 40000]"""
    if not text:
        return []
    try:
        return [int(number) for number in str(text).strip("[]() ").split(",")]
    except ValueError as error:
        raise ValueError(f"{text!r} are no cut-offs; give numbers with commas, such as 20000,40000,200000") from error


def check_adaptive_embeddings(args) -> None:
    """Raises UserError for flags of adaptive input and softmax that cannot be, or do not go together."""
    for name in ("adaptive_input_factor", "adaptive_softmax_factor"):
        if getattr(args, name) < 1:
            raise UserError(f"{flag(name)} {getattr(args, name)} would make rarer words wider; choose 1 or more.")
    if args.adaptive_input != bool(args.adaptive_input_cutoff):
        raise UserError("--adaptive-input and --adaptive-input-cutoff go together; give both or neither.")
    if args.share_decoder_input_output_embed and (args.adaptive_input or args.adaptive_softmax_cutoff):
        raise UserError(
            "--share-decoder-input-output-embed is for plain tables; with --adaptive-input and"
            " --adaptive-softmax-cutoff take --tie-adaptive-weights."
        )
    if args.tie_adaptive_weights and (
        args.adaptive_input_cutoff != args.adaptive_softmax_cutoff
        or args.adaptive_input_factor != args.adaptive_softmax_factor
        or not args.adaptive_input
    ):
        raise UserError(
            "--tie-adaptive-weights needs --adaptive-input and the same cut-offs and factor for both: make"
            " --adaptive-input-cutoff and --adaptive-softmax-cutoff, and both factors, equal."
        )
    if args.tie_adaptive_proj and not args.tie_adaptive_weights:
        raise UserError("--tie-adaptive-proj needs --tie-adaptive-weights; give both or leave it out.")
