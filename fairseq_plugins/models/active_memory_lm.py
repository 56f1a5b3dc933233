"""Active memory as a language model of single lines (the active-memory paper, section 4.1).

B batch, T length, C width, V vocabulary.
"""

import math
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqLanguageModel, register_model
from omegaconf import II
from torch import Tensor, nn

from fairseq_plugins.models.common.architectures import attention_sizes, checked_options, register_architecture
from fairseq_plugins.models.common.decoder import UNBOUNDED, StepwiseDecoder
from fairseq_plugins.models.common.embeddings import ScaledEmbedding
from fairseq_plugins.models.common.hub import FromFolder, LineHub
from fairseq_plugins.modules.active_memory.mixers import MIXERS, MixerConfig
from fairseq_plugins.modules.active_memory.self_attention import SCALINGS, SelfAttention
from fairseq_plugins.modules.active_memory.stack import ActiveMemoryStack
from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.sinusoids import WAVELENGTHS
from fairseq_plugins.options.checks import check_heads, naming_flags
from fairseq_plugins.options.fields import option


class OutputProjection(nn.Linear):
    """The last layer of a model, from features to the logits of the vocabulary. The class marks it for
    ``WEIGHT_INITS``."""


def initialise_published(module: nn.Module) -> None:
    """As in the authors' code: N(0, 1) for embeddings and dense layers, N(0, 0.1) for queries, keys and values, 0 for
    biases, Glorot uniform for the last layer and its bias. Convolutions and persistent vectors are Glorot uniform from
    their construction."""
    if isinstance(module, OutputProjection):
        nn.init.xavier_uniform_(module.weight)
        limit = math.sqrt(3 / module.out_features)
        nn.init.uniform_(module.bias, -limit, limit)
        return
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, SelfAttention):
        for projection in (module.q_proj, module.k_proj, module.v_proj):
            nn.init.normal_(projection.weight, std=0.1)


def initialise_glorot(module: nn.Module) -> None:
    """Glorot uniform for dense layers, 0 for biases, and for embeddings a variance that is 1 after scaling."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


WEIGHT_INITS = {"published": initialise_published, "glorot": initialise_glorot}


MixerName: Any = ChoiceEnum(list(MIXERS))
Activation: Any = ChoiceEnum(list(ACTIVATIONS))
Scaling: Any = ChoiceEnum(list(SCALINGS))
Wavelengths: Any = ChoiceEnum(list(WAVELENGTHS))
WeightInit: Any = ChoiceEnum(list(WEIGHT_INITS))


@dataclass
class MixerFlags(FairseqDataclass):
    """The flags of every model with active memory."""

    mixer: MixerName = option(
        "self-attention+highway-convolution",
        "how tokens of a sequence are mixed: by active memory, by self-attention, or by their sum",
    )
    kernel_size: int = option(20, "number of tokens that a convolution covers")
    convolution_activation: Activation = option(
        "relu", "activation after a plain or persistent convolution: relu in the paper, gelu_accurate in its code"
    )
    attention_scaling: Scaling = option(
        "sqrt",
        "sqrt divides attention scores by the square root of a head's width, as in the paper; its code divides by that"
        " root and then by the width",
    )


@dataclass
class ActiveMemoryConfig(MixerFlags):
    """The flags of models that are a stack of layers with active memory."""

    decoder_embed_dim: int = option(256, "width of the model")
    decoder_ffn_embed_dim: int = option(1024, "width of feed-forward layers")
    decoder_layers: int = option(8, "number of layers")
    decoder_attention_heads: int = option(8, "number of attention heads")
    decoder_head_dim: Optional[int] = option(
        64, "width of a head; None: --decoder-embed-dim divided by the number of heads"
    )
    activation_fn: Activation = option("relu", "activation of feed-forward layers; Table 1's code has gelu_accurate")
    dropout: float = option(0.1, "dropout of embeddings and of the outputs of mixers and feed-forward layers")
    attention_dropout: float = option(0.0, "dropout of attention weights; the authors' code uses the rate of --dropout")
    activation_dropout: float = option(
        0.0, "dropout of feed-forward activations; the authors' code uses the rate of --dropout"
    )
    wavelengths: Wavelengths = option(
        "vaswani",
        "wavelengths of the positions' n sines and cosines: 2 pi 10000^(i / n), or, as in the authors' code, 2 pi"
        " 10000^(i / (n - 1))",
    )
    weight_init: WeightInit = option(
        "published", "initial weights: published as in the authors' code, N(0, 1) for dense layers; or Glorot uniform"
    )


@dataclass
class ActiveMemoryLanguageModelConfig(ActiveMemoryConfig):
    max_target_positions: Optional[int] = II("task.max_target_positions")


def mixer_options(config) -> dict[str, Any]:
    """The options of every model with active memory that its mixers take."""
    return {
        "kernel_size": config.kernel_size,
        "activation": str(config.convolution_activation),
        "attention_dropout": config.attention_dropout,
        "attention_scaling": str(config.attention_scaling),
    }


def build_stack(config, causal: bool) -> ActiveMemoryStack:
    """The layers that the flags of an ActiveMemoryConfig describe. Raises UserError for flags that do not fit."""
    check_heads(config)
    with naming_flags("--decoder-embed-dim, --mixer and the activations' flags"):
        mixer = MixerConfig(**attention_sizes(config), **mixer_options(config), causal=causal)
        return ActiveMemoryStack(
            mixer,
            config.decoder_layers,
            str(config.mixer),
            config.decoder_ffn_embed_dim,
            str(config.activation_fn),
            config.dropout,
            config.activation_dropout,
            str(config.wavelengths),
        )


class LineDecoder(StepwiseDecoder):
    """Scaled embeddings, the stack, and an output layer."""

    def __init__(self, dictionary, stack: ActiveMemoryStack, width: int, longest: int):
        super().__init__(dictionary)
        self.embed, self.stack = ScaledEmbedding(len(dictionary), width), stack
        self.output, self.longest = OutputProjection(width, len(dictionary)), longest

    def forward(self, tokens: Tensor, encoder_out=None, incremental_state=None):
        """tokens [B, T], padding at the end -> (logits [B, T, V], extras for fairseq).

        With an incremental state: the logits after the last token [B, 1, V]. Tokens that were not read before are read
        one by one.
        """
        if incremental_state is None:
            return self.output(self.stack(self.embed(tokens))), {"attn": None}
        return self.output(self.decode(tokens, incremental_state)).unsqueeze(1), {"attn": None}

    def embedding(self, token):
        return self.embed(token)

    def start(self, x):
        return self.stack.start(x)

    def step(self, state, x):
        return self.stack.step(state, x)

    def max_positions(self) -> int:
        return self.longest


@register_model("active_memory_lm", dataclass=ActiveMemoryLanguageModelConfig)
class ActiveMemoryLanguageModel(FromFolder, FairseqLanguageModel):
    """A language model for --task language_modeling --sample-break-mode eos, where each line is a sequence."""

    HUB = LineHub

    @classmethod
    def build_model(cls, args, task):
        config = checked_options(cls, args)
        stack = build_stack(config, causal=True)
        longest = config.max_target_positions or UNBOUNDED
        model = cls(LineDecoder(task.source_dictionary, stack, config.decoder_embed_dim, longest))
        return model.apply(WEIGHT_INITS[str(config.weight_init)])

    def forward(self, src_tokens, src_lengths=None, incremental_state=None):
        """src_tokens [B, T], padding at the end -> as in LineDecoder. src_lengths are not used."""
        return self.decoder(src_tokens, incremental_state=incremental_state)


register_architecture(
    "active_memory_lm",
    "active_memory_lm_tiny",
    decoder_layers=2,
    decoder_embed_dim=64,
    decoder_ffn_embed_dim=128,
    decoder_attention_heads=2,
    decoder_head_dim=16,
    kernel_size=5,
    weight_init="glorot",
)
