"""The base of all language models over streams: their options, their construction, and the methods that the task and
the criterions call.

B streams, M block length, C width, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqLanguageModel
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.architectures import checked_options, help_of, model_class
from fairseq_plugins.models.common.decoder import StreamingDecoder
from fairseq_plugins.models.common.embeddings import build_embeddings, check_adaptive_embeddings
from fairseq_plugins.models.common.hub import FromFolder, StreamHub
from fairseq_plugins.modules.common.adaptive_io import log_softmax
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.options.checks import naming_flags
from fairseq_plugins.options.fields import option


@dataclass
class StreamingLanguageModelConfig(FairseqDataclass):
    decoder_embed_dim: int = option(512, "width of the model")
    decoder_layers: int = option(12, "number of layers")
    decoder_attention_heads: int = option(8, "number of attention heads")
    decoder_head_dim: Optional[int] = option(
        None, "width of a head (default: --decoder-embed-dim divided by the number of heads)"
    )
    decoder_normalize_before: bool = option(False, "LayerNorm before each sublayer and before the output layer")
    dropout: float = option(0.0, "dropout of attention weights and of feed-forward activations")
    embed_dropout: float = option(0.0, "dropout of embeddings")
    output_dropout: float = option(0.0, "dropout of the top layer's output")

    share_decoder_input_output_embed: bool = option(False, "embeddings and output layer share one table")
    adaptive_input: bool = option(False, "adaptive input: rarer words have narrower embeddings")
    adaptive_input_cutoff: Optional[str] = option(
        None, "the ends of all clusters of words but the last: 20000,40000,200000 makes four clusters"
    )
    adaptive_input_factor: float = option(4, "each cluster is this many times narrower than the one before")
    adaptive_softmax_cutoff: Optional[str] = option(
        None, "adaptive softmax, with cluster ends as in --adaptive-input-cutoff"
    )
    adaptive_softmax_factor: float = option(4, "as --adaptive-input-factor, for the adaptive softmax")
    tie_adaptive_weights: bool = option(False, "adaptive input and softmax share the table of each cluster")
    tie_adaptive_proj: bool = option(False, "adaptive input and softmax share the projection of each cluster")


class StreamingLanguageModel(FromFolder, FairseqLanguageModel):
    """A language model whose memory goes from block to block. A subclass builds the body; it may override the methods
    below ``Asked by the task and the criterions``, whose defaults do nothing.

    Attributes:
        memory_length: the most tokens of a stream that the memory depends on; 0: no limit
        skipped_layers: a name in optim.skipped_parameters.STEPS
        trains_spans: the model has adaptive spans with a loss, so its criterion must add ``span_loss``
    """

    HUB = StreamHub
    memory_length = 0
    skipped_layers = "frozen"
    trains_spans = False

    def __init__(self, decoder: nn.Module, config=None):
        super().__init__(decoder)
        self.config = config

    @classmethod
    def build_body(cls, config) -> nn.Module:
        """The body of a StreamingDecoder. Raises ValueError for an option that does not fit."""
        raise NotImplementedError

    @classmethod
    def build_embeddings(cls, config, vocabulary: int) -> tuple[nn.Module, nn.Module]:
        """The input and the output layer of a StreamingDecoder."""
        return build_embeddings(config, vocabulary)

    @classmethod
    def check_options(cls, config) -> None:
        """Raises UserError for options that do not go together in a model of this class."""
        check_adaptive_embeddings(config)

    @classmethod
    def build_model(cls, args, task):
        if not getattr(task, "keeps_memory", False):
            raise UserError(
                f"--arch {args._name} needs --task streaming_language_modeling: with another task each block would"
                " start from an empty memory."
            )
        args = checked_options(cls, args)
        cls.check_options(args)
        dictionary = task.source_dictionary
        with naming_flags(help_of(args)):
            body = cls.build_body(args)
            embed, output = cls.build_embeddings(args, len(dictionary))
        decoder = StreamingDecoder(dictionary, embed, body, output, args.embed_dropout, args.output_dropout)
        return cls(decoder, args)

    def forward(self, src_tokens, src_lengths=None, memory: StreamMemory | None = None, incremental_state=None):
        """
        Args:
            src_tokens: [B, M]
            src_lengths: not used, since padding is at the end
            memory: the memory of earlier blocks, which this call advances. None: the streams start here, and nothing is
                stored
            incremental_state: fairseq's state of step-by-step decoding

        Returns:
            (logits [B, M, V], or features [B, M, C] with an adaptive softmax; a dictionary of extras for fairseq)
        """
        return self.decoder(src_tokens, incremental_state=incremental_state, memory=memory)

    def get_normalized_probs(self, net_output, log_probs, sample=None):
        """Probabilities of all words [..., V], or their logarithms.

        If the sample holds "figures" (see streams/evaluation.py), the log-probabilities of its targets are added there.
        """
        x, extra = net_output
        lprobs = self.decoder.output.log_probs(x) if extra.get("features") else log_softmax(x)
        if not log_probs:
            return lprobs.exp()
        if sample is not None and "figures" in sample:
            target = sample["target"]
            sample["figures"].add(lprobs.gather(-1, target.unsqueeze(-1)).squeeze(-1), target)
        return lprobs

    # Asked by the task and the criterions

    def token_nll(self, net_output, target: Tensor) -> Tensor:
        """Negative log-probabilities of targets [B, M] in nats, from the output of ``forward``.

        An adaptive softmax computes only the clusters that the targets are in.
        """
        x, extra = net_output
        if extra.get("features"):
            return self.decoder.output.nll(x, target)
        return F.nll_loss(log_softmax(x).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)

    def span_loss(self) -> Tensor | None:
        """A loss in nats per token that the criterion adds in training; None: there is none."""
        return None

    def learned(self) -> dict[str, Tensor]:
        """Learned quantities that the criterion logs in training, by name. They stay on the device until they are
        printed."""
        return {}

    def skipped_parameters(self) -> list[nn.Parameter]:
        """Parameters that this update does not use. ``skipped_layers`` says how the optimiser treats them."""
        return []

    def after_update(self, masters: Mapping[nn.Parameter, Tensor]) -> None:
        """Called after each step of the optimiser, for example to clamp a parameter. ``masters`` are the float32
        copies that --fp16 and --bf16 update in place of parameters; the same change has to be made to them."""

    def training_settings(self, block: int) -> str:
        """How training in blocks of ``block`` tokens differs from the paper's, for the log; empty if it does not."""
        return ""

    def evaluation_settings(self, block: int) -> str:
        """The settings that an evaluation in blocks of ``block`` tokens depends on; they are logged beside its
        figures."""
        return ""


def keeps_memory(name: str) -> bool:
    """Whether an architecture goes on from block to block of a stream; True for a name that fairseq will refuse."""
    model = model_class(name)
    return model is None or issubclass(model, StreamingLanguageModel)
