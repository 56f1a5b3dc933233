"""The parameters of one Feedback Transformer layer. How a step is computed stands in the engines: `feedback_reference`
(plain) and `feedback_fast`. Names and initial values are those of fairseq's Transformer, so both can be compared.

C width, F feed-forward width, H heads, D width of a head.
"""

from dataclasses import dataclass

from torch import nn

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.head_width import head_width


@dataclass
class FeedbackLayerConfig:
    """Sizes and rates that all layers of a stack share.

    context_dim is the encoder's width, None without an encoder; head_dim the width of a head, None for C / H.
    """

    embed_dim: int
    ffn_dim: int
    heads: int
    context_dim: int | None = None
    head_dim: int | None = None
    attention_bias: bool = True
    pre_norm: bool = False
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    activation: str = "relu"

    def __post_init__(self):
        self.head_dim = head_width(self.embed_dim, self.heads, self.head_dim)
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation {self.activation!r} is not one of {', '.join(ACTIVATIONS)}")


class AttentionProjections(nn.Module):
    """Projections of one attention sublayer; keys and values come from vectors of width key_dim."""

    def __init__(self, config: FeedbackLayerConfig, key_dim: int):
        super().__init__()
        embed_dim, inner_dim, bias = config.embed_dim, config.heads * config.head_dim, config.attention_bias
        self.k_proj = nn.Linear(key_dim, inner_dim, bias)
        self.v_proj = nn.Linear(key_dim, inner_dim, bias)
        self.q_proj = nn.Linear(embed_dim, inner_dim, bias)
        self.out_proj = nn.Linear(inner_dim, embed_dim, bias)
        gain = 2**-0.5 if key_dim == embed_dim else 1.0  # as fairseq: [q; k; v] is seen as one matrix
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if bias:
            nn.init.zeros_(self.out_proj.bias)


class FeedbackLayer(nn.Module):
    """Attention to the feedback memory, attention to the encoder (where there is one), feed-forward."""

    def __init__(self, config: FeedbackLayerConfig):
        super().__init__()
        self.config = config
        self.self_attn = AttentionProjections(config, config.embed_dim)
        self.self_attn_layer_norm = nn.LayerNorm(config.embed_dim)
        self.encoder_attn = self.encoder_attn_layer_norm = None
        if config.context_dim is not None:
            self.encoder_attn = AttentionProjections(config, config.context_dim)
            self.encoder_attn_layer_norm = nn.LayerNorm(config.embed_dim)
        self.fc1 = nn.Linear(config.embed_dim, config.ffn_dim)
        self.fc2 = nn.Linear(config.ffn_dim, config.embed_dim)
        self.final_layer_norm = nn.LayerNorm(config.embed_dim)


def share_keys_and_values(layers: nn.ModuleList) -> None:
    """One key and one value matrix for all layers (section 3.3).

    With pre-norm the memory is normalised before it is projected, so one attention LayerNorm is shared too, for the
    memory and the queries alike: otherwise a layer's keys would differ by its own LayerNorm.
    """
    first = layers[0]
    for layer in layers[1:]:
        layer.self_attn.k_proj = first.self_attn.k_proj
        layer.self_attn.v_proj = first.self_attn.v_proj
        if layer.config.pre_norm:
            layer.self_attn_layer_norm = first.self_attn_layer_norm


def initialise_as_published(layers: nn.ModuleList) -> None:
    """The initial values of the language models' public code: torch's own; with pre-norm what ends a residual branch is
    divided by sqrt(2 L), bias included."""
    for layer in layers:
        for module in layer.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()
    for layer in layers:
        if layer.config.pre_norm:
            for parameter in (*layer.self_attn.out_proj.parameters(), *layer.fc2.parameters()):
                parameter.data.mul_((2 * len(layers)) ** -0.5)
