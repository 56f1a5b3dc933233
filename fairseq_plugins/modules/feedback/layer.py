"""The parameters of one layer of the Feedback Transformer. `reference` and the engine compute with them.

Names and initial values are those of fairseq's Transformer, so that the two can be compared.

C width, H heads, D width of a head, L layers.
"""

from dataclasses import dataclass

from torch import nn

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.common.checks import choose, head_width
from fairseq_plugins.modules.common.layers import ModuleList


@dataclass
class FeedbackLayerConfig:
    """Sizes and rates that all layers of a stack share."""

    embed_dim: int  # C
    ffn_dim: int  # width of the feed-forward sublayer
    heads: int  # H
    context_dim: int | None = None  # width of the encoder's output; None without an encoder
    head_dim: int = None  # type: ignore[assignment]  # D; None for C / H, which __post_init__ fills in
    attention_bias: bool = True  # projections of attention have biases
    pre_norm: bool = False  # a LayerNorm before each sublayer; else after it
    dropout: float = 0.0  # of the output of each sublayer
    attention_dropout: float = 0.0  # of attention weights
    activation_dropout: float = 0.0  # of the output of the feed-forward activation
    activation: str = "relu"  # a name in ACTIVATIONS

    def __post_init__(self):
        self.head_dim = head_width(self.embed_dim, self.heads, self.head_dim)
        choose("activation", self.activation, ACTIVATIONS)


class AttentionProjections(nn.Module):
    """The four projections of an attention sublayer. Keys and values are made from vectors of width key_dim."""

    def __init__(self, config: FeedbackLayerConfig, key_dim: int):
        super().__init__()
        embed_dim, inner_dim, bias = config.embed_dim, config.heads * config.head_dim, config.attention_bias
        self.k_proj = nn.Linear(key_dim, inner_dim, bias)
        self.v_proj = nn.Linear(key_dim, inner_dim, bias)
        self.q_proj = nn.Linear(embed_dim, inner_dim, bias)
        self.out_proj = nn.Linear(inner_dim, embed_dim, bias)
        gain = 2**-0.5 if key_dim == embed_dim else 1.0  # as in fairseq, where [q; k; v] is one matrix
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if bias:
            nn.init.zeros_(self.out_proj.bias)


class FeedbackLayer(nn.Module):
    """Attention to the feedback memory, attention to the encoder if there is one, and a feed-forward sublayer."""

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


def share_keys_and_values(layers: ModuleList[FeedbackLayer]) -> None:
    """Give all layers one key matrix and one value matrix (section 3.3).

    With pre-norm the memory is normalised before it is projected. So all layers share one attention LayerNorm too, for
    memory and queries alike: with a LayerNorm of its own each layer would have other keys.
    """
    first = layers[0]
    for layer in layers[1:]:
        layer.self_attn.k_proj = first.self_attn.k_proj
        layer.self_attn.v_proj = first.self_attn.v_proj
        if layer.config.pre_norm:
            layer.self_attn_layer_norm = first.self_attn_layer_norm


def initialise_as_published(layers: ModuleList[FeedbackLayer]) -> None:
    """Set the initial values of the language models' public code: those of torch. With pre-norm, the last projection of
    each residual branch is divided by sqrt(2 L), its bias included."""
    for layer in layers:
        for module in layer.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()
    for layer in layers:
        if layer.config.pre_norm:
            for parameter in (*layer.self_attn.out_proj.parameters(), *layer.fc2.parameters()):
                parameter.data.mul_((2 * len(layers)) ** -0.5)
