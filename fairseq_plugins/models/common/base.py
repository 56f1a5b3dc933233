"""What all language models over streams share: their options, and how they are built and called.

B streams, M block length, C width, V vocabulary.
"""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqLanguageModel
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.architectures import with_defaults
from fairseq_plugins.models.common.decoder import StreamingDecoder
from fairseq_plugins.models.common.embeddings import build_embeddings, check_adaptive_embeddings
from fairseq_plugins.models.common.options import check_heads, check_kinds, check_rates, check_sizes
from fairseq_plugins.modules.common.adaptive_io import log_softmax
from fairseq_plugins.modules.common.stream_memory import StreamMemory


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
