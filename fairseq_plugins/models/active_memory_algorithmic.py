"""Active memory for algorithmic tasks, which label every token of a sequence (the active-memory paper, section 4.2).
The layers are bidirectional.

B batch, T length, C width, V vocabulary.
"""

from dataclasses import dataclass

from fairseq.models import BaseFairseqModel, register_model
from fairseq.tasks.language_modeling import LanguageModelingTask
from torch import Tensor

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.active_memory_lm import WEIGHT_INITS, ActiveMemoryConfig, OutputProjection, build_stack
from fairseq_plugins.models.common.architectures import checked_options
from fairseq_plugins.models.common.embeddings import ScaledEmbedding
from fairseq_plugins.modules.active_memory.stack import ActiveMemoryStack
from fairseq_plugins.modules.common.adaptive_io import log_softmax
from fairseq_plugins.options.fields import option


@dataclass
class ActiveMemoryAlgorithmicConfig(ActiveMemoryConfig):
    decoder_embed_dim: int = option(128, "width of the model")
    decoder_ffn_embed_dim: int = option(512, "width of feed-forward layers")
    decoder_layers: int = option(4, "number of layers")


@register_model("active_memory_algorithmic", dataclass=ActiveMemoryAlgorithmicConfig)
class ActiveMemoryAlgorithmic(BaseFairseqModel):
    """Scaled embeddings, bidirectional layers, and an output layer at every position.

    Args:
        stack: the layers, which must not be causal
        width: C
        vocabulary: V
        padding: index of the padding symbol, which only follows the end of a sequence
    """

    def __init__(self, stack: ActiveMemoryStack, width: int, vocabulary: int, padding: int):
        super().__init__()
        self.embed, self.stack = ScaledEmbedding(vocabulary, width), stack
        self.output, self.padding = OutputProjection(width, vocabulary), padding

    @classmethod
    def build_model(cls, args, task):
        if isinstance(task, LanguageModelingTask):
            raise UserError(
                f"--arch {args._name} is bidirectional: it reads the tokens that a language model predicts. Use --task"
                " algorithmic_curriculum, or --arch active_memory_lm."
            )
        config = checked_options(cls, args)
        words = task.source_dictionary
        model = cls(build_stack(config, causal=False), config.decoder_embed_dim, len(words), words.pad())
        return model.apply(WEIGHT_INITS[str(config.weight_init)])

    def forward(self, src_tokens: Tensor, src_lengths=None, **kwargs) -> tuple[Tensor, None]:
        """src_tokens [B, T] -> (logits [B, T, V], None)"""
        padding = src_tokens.eq(self.padding)
        return self.output(self.stack(self.embed(src_tokens), padding if padding.any() else None)), None

    def get_normalized_probs(self, net_output, log_probs, sample=None) -> Tensor:
        """Probabilities of all symbols [B, T, V], or their logarithms."""
        lprobs = log_softmax(net_output[0])
        return lprobs if log_probs else lprobs.exp()

    def span_loss(self) -> None:
        """None, as the model has no adaptive spans. --criterion label_cross_entropy asks every model."""

    def max_positions(self) -> None:
        """None: the length is not limited."""
