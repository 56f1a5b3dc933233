"""Transformer-XL (Dai et al., 2019), and Skip Cross-Head Transformer-XL ("Memory-efficient Stochastic methods for
Memory-based Transformers"), which is the same network with another training.
"""

from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models import register_model
from omegaconf import II
from torch import nn

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.models.common.architectures import attention_sizes, register_architecture, sizes
from fairseq_plugins.models.common.base import StreamingLanguageModel, StreamingLanguageModelConfig
from fairseq_plugins.models.common.decoder import StreamingDecoder
from fairseq_plugins.models.common.embeddings import WIKITEXT103_WORDS, ScaledEmbedding, build_embeddings
from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.adaptive_io import AdaptiveInput, AdaptiveSoftmax
from fairseq_plugins.modules.transformer_xl.attention import Biases, XLConfig
from fairseq_plugins.modules.transformer_xl.position import POSITION_SCHEMES
from fairseq_plugins.modules.transformer_xl.skip_retain import SCHEDULES, SkipRetain
from fairseq_plugins.modules.transformer_xl.stack import INITIAL_MEMORY, XLStack
from fairseq_plugins.optim.skipped_parameters import STEPS
from fairseq_plugins.options.checks import check_heads
from fairseq_plugins.options.fields import option


def initialise_transformer_xl(module: nn.Module) -> None:
    """As in the authors' code: N(0, 0.02); N(0, 0.01) for projections of embeddings; N(1, 0.02) for the scales of
    LayerNorm; 0 for biases."""
    if isinstance(module, nn.Linear | nn.Embedding | nn.LayerNorm):
        nn.init.normal_(module.weight, mean=float(isinstance(module, nn.LayerNorm)), std=0.02)
        if (bias := getattr(module, "bias", None)) is not None:
            nn.init.zeros_(bias)
    if isinstance(module, Biases):
        for bias in module.parameters():
            nn.init.normal_(bias, std=0.02)
    if isinstance(module, AdaptiveInput | AdaptiveSoftmax):
        for table in module.tables:
            nn.init.normal_(table, std=0.02)
        for projection in module.projections:
            nn.init.normal_(projection, std=0.01)
    if isinstance(module, AdaptiveSoftmax):
        nn.init.normal_(module.cluster_weight, std=0.02)
        for bias in (*module.biases, module.cluster_bias):
            nn.init.zeros_(bias)


def initialise_skip_cross_head(module: nn.Module) -> None:
    """As in the authors' code: N(0, 1) for biases of queries and projections of embeddings. All else is as torch and
    modules/common/adaptive_io.py draw it: N(0, 1) for tables of the input, U(-width^-0.5, width^-0.5) for those of the
    output, for cluster scores and for all biases."""
    if isinstance(module, Biases):
        for bias in module.parameters():
            nn.init.normal_(bias)
    if isinstance(module, AdaptiveInput | AdaptiveSoftmax):
        for projection in module.projections:
            nn.init.normal_(projection)


# options that do not go with --factorized-embedding
NOT_FACTORIZED = (
    "share_decoder_input_output_embed",
    "adaptive_input",
    "adaptive_softmax_cutoff",
    "decoder_input_dim",
    "no_scale_embedding",
)
WEIGHT_INITS = {"transformer-xl": initialise_transformer_xl, "skip-cross-head": initialise_skip_cross_head}


Activation: Any = ChoiceEnum(list(ACTIVATIONS))
PositionScheme: Any = ChoiceEnum(list(POSITION_SCHEMES))
InitialMemory: Any = ChoiceEnum(list(INITIAL_MEMORY))
WeightInit: Any = ChoiceEnum(list(WEIGHT_INITS))
Schedule: Any = ChoiceEnum(list(SCHEDULES))
Step: Any = ChoiceEnum(list(STEPS))


@dataclass
class TransformerXLConfig(StreamingLanguageModelConfig):
    decoder_ffn_embed_dim: int = option(2048, "width of feed-forward layers")
    decoder_input_dim: Optional[int] = option(None, "width of embeddings (default: that of the model)")
    factorized_embedding: Optional[int] = option(
        None,
        "width of embeddings; one linear layer maps them to the width of the model, and another maps back before the"
        " output layer",
    )
    activation_fn: Activation = option("relu", "activation of feed-forward layers")
    normalised_residual: bool = option(
        False,
        "with --decoder-normalize-before, residual connections add the normalised input, and the memory is not"
        " normalised (as --prenorm of Skip Cross-Head's code)",
    )
    dropout: float = option(0.0, "dropout of the outputs of attention and feed-forward layers, and within the latter")
    position_dropout: Optional[float] = option(
        None, "dropout of position embeddings (default: --dropout, as in Dai et al.'s code)"
    )
    attention_dropout: float = option(0.0, "dropout of attention weights")
    mem_len: int = option(512, "number of earlier tokens in the memory of each layer")
    clamp_len: int = option(-1, "distances above this value are set to it; -1: no limit")
    same_length: bool = option(
        False, "every token attends to --mem-len tokens, itself included, at every place in its block"
    )
    position_scheme: PositionScheme = option(
        "pairwise", "pairwise: distances from each token; last-token: distances from the last token of the block"
    )
    initial_memory: InitialMemory = option("empty", "memory at the start of a stream: empty, or --mem-len zeros")
    untie_biases: bool = option(False, "biases of queries (u and v) for each layer, instead of one pair for all layers")
    learn_bias_scales: bool = option(
        False, "each head of each layer learns a factor from 0 to 1 for its biases of queries"
    )
    float32_frequencies: bool = option(
        False, "compute the frequencies of positions in float32, as the authors' code does, even in a model in float64"
    )
    float32_scores: bool = option(
        False,
        "round scores of attention to float32 where tokens are hidden, as Dai et al.'s code does, even in a model in"
        " float64",
    )
    no_scale_embedding: bool = option(False, "do not multiply embeddings by the square root of --decoder-embed-dim")
    untie_head_proj: bool = option(
        False,
        "with --tie-adaptive-proj, or with --share-decoder-input-output-embed and --decoder-input-dim, do not share"
        " the projection of the first cluster",
    )
    weight_init: WeightInit = option(
        "transformer-xl", "initial weights: those of Transformer-XL's code, or of Skip Cross-Head's"
    )
    cross_head_p: float = option(
        0.0, "probability, in training, that each head of a layer attends to another head's keys, values and positions"
    )
    # The default is not "none", which phase 2 adds to the flags of phase 1: without any schedule --skip-p is an error.
    skip_schedule: Optional[Schedule] = option(
        None, "how Skip-Retain training draws the layers to skip (default: none); linear takes no --skip-p"
    )
    skip_p: float = option(0.1, "probability that --skip-schedule skips a layer")
    skipped_layers: Step = option(
        "frozen",
        "the optimizer leaves the layers that an update skips as they are (frozen), or moves them on by momentum and"
        " weight decay (moved, as the code of Skip Cross-Head does)",
    )
    seed: int = II("common.seed")


@register_model("transformer_xl_lm", dataclass=TransformerXLConfig)
class TransformerXLLanguageModel(StreamingLanguageModel):
    """Each layer is self-attention to the block and to the layer's memory of earlier blocks, then a feed-forward
    layer."""

    def __init__(self, decoder: StreamingDecoder, config: TransformerXLConfig):
        super().__init__(decoder, config)
        self.memory_length, self.skipped_layers = config.mem_len, str(config.skipped_layers)
        decoder.apply(WEIGHT_INITS[str(config.weight_init)])

    @classmethod
    def check_options(cls, config):
        super().check_options(config)
        check_heads(config)
        if config.same_length and not config.mem_len:
            raise UserError("--same-length needs a memory; choose --mem-len 1 or more, or leave --same-length out.")
        if config.skip_p != TransformerXLConfig.skip_p and str(config.skip_schedule) in ("None", "linear"):
            raise UserError(
                f"--skip-p {config.skip_p} would have no effect: give --skip-schedule uniform, not-first, not-last or"
                " inner, or leave --skip-p out."
            )
        if str(config.skipped_layers) != "frozen" and str(config.skip_schedule) == "None":
            raise UserError(
                f"--skipped-layers {config.skipped_layers} would have no effect: give --skip-schedule, or leave"
                " --skipped-layers out."
            )
        if config.factorized_embedding and any(getattr(config, name) for name in NOT_FACTORIZED):
            *flags, last = map(flag, NOT_FACTORIZED)
            raise UserError(
                "--factorized-embedding has tables of its own, which are not scaled: leave out either this flag, or"
                f" {', '.join(flags)} and {last}."
            )
        if config.normalised_residual and not config.decoder_normalize_before:
            raise UserError(
                "--normalised-residual needs --decoder-normalize-before; give both, or leave --normalised-residual out."
            )
        if config.no_scale_embedding and (config.adaptive_input or config.decoder_input_dim):
            raise UserError(
                "--no-scale-embedding is for plain embeddings of the model's width; leave out either this flag, or"
                " --adaptive-input and --decoder-input-dim."
            )
        shared = config.share_decoder_input_output_embed and config.decoder_input_dim
        if config.untie_head_proj and not (config.tie_adaptive_proj or shared):
            raise UserError(
                "--untie-head-proj needs --tie-adaptive-proj, or --share-decoder-input-output-embed and"
                " --decoder-input-dim; give these, or leave --untie-head-proj out."
            )

    @classmethod
    def build_body(cls, config):
        layer = XLConfig(
            **attention_sizes(config),
            ffn_dim=config.decoder_ffn_embed_dim,
            mem_len=config.mem_len,
            clamp_len=config.clamp_len,
            same_length=config.same_length,
            position_scheme=str(config.position_scheme),
            initial_memory=str(config.initial_memory),
            pre_norm=config.decoder_normalize_before,
            normalised_residual=config.normalised_residual,
            activation=str(config.activation_fn),
            untie_biases=config.untie_biases,
            bias_scales=config.learn_bias_scales,
            float32_frequencies=config.float32_frequencies,
            float32_scores=config.float32_scores,
            dropout=config.dropout,
            position_dropout=config.dropout if config.position_dropout is None else config.position_dropout,
            attention_dropout=config.attention_dropout,
            cross_head_p=config.cross_head_p,
        )
        skip = None
        if str(config.skip_schedule) not in ("None", "none"):
            skip = SkipRetain(str(config.skip_schedule), config.decoder_layers, config.skip_p, config.seed)
        return XLStack(layer, config.decoder_layers, skip)

    @classmethod
    def build_embeddings(cls, config, vocabulary):
        if narrow := config.factorized_embedding:  # as in the public code of Skip Cross-Head (after Lan et al., 2020)
            width = config.decoder_embed_dim
            source = nn.Sequential(nn.Embedding(vocabulary, narrow), nn.Linear(narrow, width))
            return source, nn.Sequential(nn.Linear(width, narrow), nn.Linear(narrow, vocabulary))
        embed, output = build_embeddings(config, vocabulary, config.decoder_input_dim, not config.untie_head_proj)
        if isinstance(embed, nn.Embedding) and not config.no_scale_embedding:
            scaled = ScaledEmbedding(vocabulary, config.decoder_embed_dim)
            scaled.weight = embed.weight
            embed = scaled
        return embed, output

    def evaluation_settings(self, block: int) -> str:
        config, scheme = self.config, str(self.config.position_scheme)
        clamp = config.clamp_len if config.clamp_len > 0 else "none"
        exact = config.same_length and scheme == "pairwise" and not config.normalised_residual
        return (
            f"block {block}, memory {config.mem_len}, clamp {clamp}, same length: {config.same_length}, positions"
            f" {scheme}{'' if exact else '; the figures depend on the block length'}"
        )

    def skipped_parameters(self) -> list[nn.Parameter]:
        """The parameters of the layers that this update skips."""
        return self.decoder.body.skipped_parameters()


SHARED_TABLE = {"share_decoder_input_output_embed": True}
TRANSFORMER_XL = {"dropout": 0.1, "embed_dropout": 0.1, "output_dropout": 0.1}
EQUALLY_WIDE = {**WIKITEXT103_WORDS, "adaptive_input_factor": 1, "adaptive_softmax_factor": 1}
UNTIED_WORDS = {**WIKITEXT103_WORDS, "tie_adaptive_weights": False, "tie_adaptive_proj": False}
# Appendix B; positions, initial memory and weights as in the authors' code, which has no dropout of positions. Its
# embedding dropout, also of the top layer's output, is 0 in the paper (appendix B.1) and in the authors' scripts. This
# is phase 1 of the training; phase 2 adds --skip-schedule none.
SKIP_CROSS_HEAD = {
    "position_scheme": "last-token",
    "initial_memory": "zeros",
    "weight_init": "skip-cross-head",
    "cross_head_p": 0.1,
    "skip_schedule": "linear",
    "position_dropout": 0.0,
    "mem_len": 512,
}
ARCHITECTURES = {
    "transformer_xl_lm_tiny": {**sizes(2, 64, 128, heads=2), "mem_len": 32, **SHARED_TABLE},  # for tests
    # the authors' base scripts
    "transformer_xl_lm_enwik8": {**sizes(12, 512, 2048), "mem_len": 512, **TRANSFORMER_XL, **SHARED_TABLE},
    "transformer_xl_lm_wikitext103": {
        **sizes(16, 410, 2100, heads=10),
        "mem_len": 150,
        **TRANSFORMER_XL,
        **EQUALLY_WIDE,
    },
    "skip_cross_head_xl_enwik8": {
        **SKIP_CROSS_HEAD,
        **sizes(12, 512, 2048),
        "dropout": 0.15,
        "no_scale_embedding": True,
    },
    "skip_cross_head_xl_wikitext103": {
        **SKIP_CROSS_HEAD,
        **sizes(15, 624, 2496, heads=16),
        "dropout": 0.15,
        **UNTIED_WORDS,
    },
    "skip_cross_head_xl_ablation": {**SKIP_CROSS_HEAD, **sizes(8, 512, 2048), "dropout": 0.1, **UNTIED_WORDS},
}
for name, defaults in ARCHITECTURES.items():
    register_architecture("transformer_xl_lm", name, **defaults)
