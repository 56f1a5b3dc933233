"""Active memory in the decoder of a translation model, which the active-memory paper leaves to future work.

The model is fairseq's Transformer; its decoder layers have one of ``MIXERS`` in place of self-attention. Positions are
added to the embeddings only, as in fairseq.
"""

from typing import Any

from fairseq.models import register_model
from torch import nn

from fairseq_plugins.models.active_memory_lm import MixerFlags, initialise_glorot, mixer_options
from fairseq_plugins.models.common.architectures import register_architecture, set_defaults
from fairseq_plugins.models.common.translation import TINY, TranslationDecoder, TranslationModel, both_sides
from fairseq_plugins.modules.active_memory.mixers import MixerConfig, build_mixers
from fairseq_plugins.modules.contracts import Mixer
from fairseq_plugins.options.checks import naming_flags


class MixerAttention(nn.Module):
    """A mixer with the signature of the self-attention in fairseq's decoder layers."""

    mixer: Any

    def __init__(self, mixer: Mixer):
        super().__init__()
        self.mixer = mixer

    def forward(self, query, key=None, value=None, incremental_state=None, **kwargs):
        """query [T, B, C] -> (outputs [T, B, C], None); with an incremental state T is 1. A causal mixer needs no mask,
        since padding is at the end."""
        if incremental_state is None:
            return self.mixer(query.transpose(0, 1)).transpose(0, 1), None
        if self not in incremental_state:
            incremental_state[self] = self.mixer.start(query[0])
        return self.mixer.step(incremental_state[self], query[0]).unsqueeze(0), None

    def reorder_incremental_state(self, incremental_state, new_order) -> None:
        if self in incremental_state:
            incremental_state[self].reorder(new_order)

    def _get_input_buffer(self, incremental_state) -> dict:
        return {}  # fairseq's decoder layer calls it for cross-self-attention


class ActiveMemoryDecoder(TranslationDecoder):
    """fairseq's decoder with a mixer in each layer. Mixers with persistent vectors share these."""

    def __init__(self, cfg, dictionary, embed_tokens, output_projection=None):
        super().__init__(cfg, dictionary, embed_tokens, output_projection=output_projection)
        with naming_flags("--kernel-size and --decoder-attention-heads"):
            config = MixerConfig(
                embed_dim=cfg.decoder.embed_dim, heads=cfg.decoder.attention_heads, **mixer_options(cfg)
            )
        mixers = build_mixers(str(cfg.mixer), config, len(self.layers))
        for number, mixer in enumerate(mixers):  # by number, since with LayerDrop iteration skips layers
            self.layers[number].self_attn = MixerAttention(mixer.apply(initialise_glorot))


@register_model("active_memory_transformer")
class ActiveMemoryTransformer(TranslationModel):
    """fairseq's Transformer encoder, and a decoder with active memory."""

    FLAGS = MixerFlags
    DECODER = ActiveMemoryDecoder
    UNSUPPORTED = {
        "cross_self_attention": "mixing and cross-attention have different sources",
        "scale_heads": "a mixer's heads have no such factor",
        "xformers_att_config": "a mixer computes its own attention",
        "decoder_xformers_att_config": "a mixer computes its own attention",
        "quant_noise_pq": "a mixer has no quantisation noise",
        "quant_noise_scalar": "a mixer has no quantisation noise",
        "left_pad_target": "a mixer takes padding at the end of a target",
        "export": "a mixer's decoding state cannot be exported",
    }

    @classmethod
    def complete(cls, args):
        """fairseq's sizes, and pre-norm layers as in the paper."""
        set_defaults(args, **both_sides(normalize_before=True))
        super().complete(args)


for name, defaults in {"": {}, "_tiny": {**TINY, "kernel_size": 5}}.items():
    register_architecture(
        "active_memory_transformer", f"active_memory_transformer{name}", ActiveMemoryTransformer.complete, **defaults
    )
