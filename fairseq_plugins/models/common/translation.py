"""The base of the translation models: fairseq's Transformer with another decoder."""

from argparse import Namespace
from dataclasses import fields
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase, TransformerModel
from fairseq.models.transformer import base_architecture as transformer_base
from omegaconf import DictConfig, OmegaConf

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.models.common.architectures import set_defaults
from fairseq_plugins.models.common.encoder import PaddingAskedOnce
from fairseq_plugins.models.common.hub import FromFolder, TranslationHub
from fairseq_plugins.models.common.int8 import Int8Output
from fairseq_plugins.modules.common import few_rows
from fairseq_plugins.options.checks import check_heads, check_numbers, check_ranges

SIZES = ("layers", "embed_dim", "attention_heads", "ffn_embed_dim")


class TranslationEncoder(PaddingAskedOnce):
    """fairseq's encoder, which asks once whether there is padding."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.dropout_module.module_name = "TransformerEncoder"  # by which --retain-dropout-modules finds it


class TranslationDecoder(Int8Output, TransformerDecoderBase):
    """fairseq's decoder, which hands the mask of padding to its layers without asking whether it is empty."""

    OUTPUT = "output_projection"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.dropout_module.module_name = "TransformerDecoder"
        self.cross_self_attention = True  # fairseq's decoder does not ask a GPU then; it reads this nowhere else

    def output_layer(self, features):
        if self.adaptive_softmax is not None:
            return super().output_layer(features)
        return few_rows.linear(self.output_projection, features)


class TranslationModel(FromFolder, TransformerModel):
    """fairseq's encoder, with the decoder of a subclass."""

    HUB = TranslationHub
    FLAGS: type[FairseqDataclass]  # the decoder's flags beside fairseq's
    UNSUPPORTED: dict[str, str]  # fairseq's options that the decoder does not support, and why
    ENCODER = TranslationEncoder
    DECODER: type[TranslationDecoder]

    @classmethod
    def add_args(cls, parser):
        super().add_args(parser)
        gen_parser_from_dataclass(parser, cls.FLAGS(), delete_default=True)

    @classmethod
    def complete(cls, args: Namespace) -> None:
        """Set the default of each flag that neither the user nor the architecture has set."""
        set_defaults(args, **{each.name: each.default for each in fields(cls.FLAGS) if each.name != "_name"})
        transformer_base(args)

    @classmethod
    def build_model(cls, args, task):
        if isinstance(args, DictConfig):  # fairseq-hydra-train
            options: Any = OmegaConf.to_container(args)
            args = Namespace(**options)
        cls.complete(args)
        cls.check_options(args)
        return super().build_model(args, task)

    @classmethod
    def build_encoder(cls, args, src_dict, embed_tokens):
        return cls.ENCODER(TransformerConfig.from_namespace(args), src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, args, tgt_dict, embed_tokens):
        return cls.DECODER(TransformerConfig.from_namespace(args), tgt_dict, embed_tokens)

    @classmethod
    def check_options(cls, args: Namespace) -> None:
        """Raises UserError for an option that this model does not support."""
        for name, reason in cls.UNSUPPORTED.items():
            if getattr(args, name, None):
                raise UserError(f"{flag(name)} does not work with this decoder: {reason}.")
        check_ranges(args, cls.FLAGS)
        check_numbers(args, "dropout", "attention_dropout", "activation_dropout")
        for side in ("encoder", "decoder"):
            check_numbers(args, *(f"{side}_{name}" for name in SIZES))
            check_heads(args, side)


def both_sides(**sizes: int) -> dict[str, Any]:
    """The same options for encoder and decoder: layers=6 -> encoder_layers=6, decoder_layers=6."""
    return {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()}


# for tests and for the quickstart; not from a paper
TINY = {
    "share_decoder_input_output_embed": True,
    **both_sides(embed_dim=64, ffn_embed_dim=128, attention_heads=2, layers=2),
}
