"""Feedback Transformer for translation and summarisation (Fan et al., 2020, sections 4.2.1 and 6): fairseq's encoder,
and a decoder whose layers attend to the feedback memory.

The memory before the first step, m_0, is zeros, and every step attends to it. This is our choice: the paper does not
specify the memory of the first step.
"""

import torch
from fairseq.models import register_model
from torch import nn

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.architectures import register_architecture
from fairseq_plugins.models.common.feedback import FeedbackConfig
from fairseq_plugins.models.common.translation import (
    TINY,
    TranslationDecoder,
    TranslationEncoder,
    TranslationModel,
    both_sides,
)
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stack import FeedbackStack
from fairseq_plugins.options.checks import naming_flags

STATE = "feedback_recurrence"  # key in fairseq's incremental state
ROWS = "rows"  # key in the encoder's output


class FeedbackTransformerEncoder(TranslationEncoder):
    """fairseq's encoder, without a copy of its output in every step of beam search.

    The decoder reads the encoder's output once and stores keys and values of its own. So ``reorder_encoder_out`` only
    stores the new order of rows (under ROWS), and ``apply_pending_reorder`` applies it before the output is read.
    """

    def reorder_encoder_out(self, encoder_out, new_order):
        rows = encoder_out[ROWS][0].index_select(0, new_order) if ROWS in encoder_out else new_order
        return {**encoder_out, ROWS: [rows]}


def apply_pending_reorder(encoder_out: dict, share: bool) -> dict:
    """The encoder's output with its rows in the stored order.

    With ``share``, the rows are not copied if the order repeats each sentence for the beams beside one another, as at
    the start of beam search.
    """
    if ROWS not in encoder_out:
        return encoder_out
    rows, sentences = encoder_out[ROWS][0], encoder_out["encoder_out"][0].size(1)
    beams = torch.arange(sentences, device=rows.device).repeat_interleave(len(rows) // sentences)
    if share and torch.equal(rows, beams):
        return encoder_out
    return {
        "encoder_out": [x.index_select(1, rows) for x in encoder_out["encoder_out"]],
        "encoder_padding_mask": [x.index_select(0, rows) for x in encoder_out["encoder_padding_mask"]],
    }


class FeedbackDecoderLayers(FeedbackStack):
    """The stack of layers with the signature of one of fairseq's decoder layers, so that fairseq's decoder can call
    it."""

    def forward(
        self, x, encoder_out=None, encoder_padding_mask=None, incremental_state=None, self_attn_mask=None,
        self_attn_padding_mask=None, need_attn=False, need_head_weights=False,
    ):  # fmt: skip
        """x [T, B, C] -> outputs [T, B, C], and in generation the top layer's attention to the source [H, B, 1, S]."""
        context = encoder_out.transpose(0, 1)
        if incremental_state is None:
            return super().forward(x, context, encoder_padding_mask, left_padding(self_attn_padding_mask)), None, None
        if STATE not in incremental_state:
            incremental_state[STATE] = self.start(context, encoder_padding_mask, beam=x.size(1) // len(context))
        x, attention = self.step(incremental_state[STATE], x[0])
        assert attention is not None  # there is an encoder
        return x.unsqueeze(0), attention.transpose(0, 1).unsqueeze(2), None

    def reorder_incremental_state(self, incremental_state, new_order) -> None:
        if STATE in incremental_state:
            incremental_state[STATE].reorder(new_order)

    def make_generation_fast_(self, name="", retain_dropout=False, retain_dropout_modules=None, **kwargs) -> None:
        if retain_dropout and retain_dropout_modules is None:
            raise UserError(
                "--retain-dropout does not reach the layers of a Feedback Transformer's decoder; name those of the"
                " encoder with --retain-dropout-modules, such as '[\"TransformerEncoder\"]'."
            )


def left_padding(mask):
    """The mask [B, T] if a token comes after padding, else None: no token attends to padding at the end."""
    return mask if mask is not None and (mask[:, :-1] & ~mask[:, 1:]).any() else None


class FeedbackTransformerDecoder(TranslationDecoder):
    """fairseq's decoder (embeddings, positions, output layer) with the feedback stack as its only layer."""

    def __init__(self, cfg, dictionary, embed_tokens, output_projection=None):
        super().__init__(cfg, dictionary, embed_tokens, output_projection=output_projection)
        with naming_flags("--feedback-memory, --decoder-layers and --activation-fn"):
            config = FeedbackLayerConfig(
                embed_dim=cfg.decoder.embed_dim,
                ffn_dim=cfg.decoder.ffn_embed_dim,
                heads=cfg.decoder.attention_heads,
                context_dim=cfg.encoder.embed_dim,
                pre_norm=cfg.decoder.normalize_before,
                dropout=cfg.dropout,
                attention_dropout=cfg.attention_dropout,
                activation_dropout=cfg.activation_dropout or cfg.relu_dropout,
                activation=cfg.activation_fn,
            )
            stack = FeedbackDecoderLayers(
                config, cfg.decoder.layers, cfg.feedback_memory, cfg.feedback_kv, cfg.feedback_engine
            )
        self.layers = nn.ModuleList([stack])
        self.num_layers = 1

    def extract_features(self, prev_output_tokens, encoder_out, incremental_state=None, *args, **kwargs):
        if incremental_state is None or STATE not in incremental_state:
            encoder_out = apply_pending_reorder(encoder_out, share=incremental_state is not None)
        return super().extract_features(prev_output_tokens, encoder_out, incremental_state, *args, **kwargs)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return nn.Identity()  # not used: the layers share their memory, so they are built together

    def prepare_for_onnx_export_(self):
        raise UserError("a Feedback Transformer cannot be exported to ONNX: its decoder is a loop over time steps.")


@register_model("feedback_transformer")
class FeedbackTransformerModel(TranslationModel):
    """fairseq's Transformer encoder with a Feedback Transformer decoder."""

    FLAGS = FeedbackConfig
    UNSUPPORTED = {
        "decoder_layerdrop": "the memory mixes all decoder layers, so none can be dropped; use --encoder-layerdrop",
        "decoder_layers_to_keep": "the memory mixes all decoder layers, so none can be pruned",
        "no_cross_attention": "every layer of this decoder attends to the encoder",
        "cross_self_attention": "self- and cross-attention have different sources here",
        "checkpoint_activations": "the recurrence keeps its activations; lower --max-tokens and raise --update-freq",
        "offload_activations": "the recurrence keeps its activations; lower --max-tokens and raise --update-freq",
        "quant_noise_pq": "the decoder's matrices are used without fairseq's quantisation noise",
        "quant_noise_scalar": "the decoder's matrices are used without fairseq's quantisation noise",
        "base_layers": "the decoder has no BASE layers",
        "xformers_att_config": "the recurrence computes its own attention",
        "decoder_xformers_att_config": "the recurrence computes its own attention",
        "scale_attn": "the decoder's layers have no such LayerNorm",
        "scale_fc": "the decoder's layers have no such LayerNorm",
        "scale_heads": "the decoder's heads have no such factor",
        "scale_resids": "the decoder's residuals have no such factor",
        "export": "a loop over time steps cannot be exported to TorchScript or ONNX",
    }
    ENCODER, DECODER = FeedbackTransformerEncoder, FeedbackTransformerDecoder

    def __prepare_scriptable__(self):
        raise UserError(
            "a Feedback Transformer cannot be exported to TorchScript: its decoder is a loop over time steps."
        )


SIX_LAYERS = {"dropout": 0.3, **both_sides(layers=6)}
WMT = {**SIX_LAYERS, "share_all_embeddings": True, **both_sides(embed_dim=1024, ffn_embed_dim=4096, attention_heads=16)}
ARCHITECTURES = {
    "feedback_transformer": {},
    # Table 8
    "feedback_transformer_wmt": WMT,
    "feedback_transformer_iwslt": {
        **SIX_LAYERS,
        "share_decoder_input_output_embed": True,
        **both_sides(embed_dim=512, ffn_embed_dim=1024, attention_heads=4),
    },
    "feedback_transformer_cnndm": {
        **SIX_LAYERS,
        "share_all_embeddings": True,
        **both_sides(embed_dim=512, ffn_embed_dim=2048, attention_heads=8),
    },
    # a deep encoder and a shallow decoder (section 4.2.1); the paper gives no LayerDrop rate, 0.1 is our choice
    "feedback_transformer_wmt_12_2": {**WMT, "encoder_layers": 12, "decoder_layers": 2, "encoder_layerdrop": 0.1},
    "feedback_transformer_tiny": TINY,
}
for name, defaults in ARCHITECTURES.items():
    register_architecture("feedback_transformer", name, FeedbackTransformerModel.complete, **defaults)
