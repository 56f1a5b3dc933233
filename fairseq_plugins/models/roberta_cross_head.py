"""RoBERTa with stochastic cross-head attention, for fine-tuning ("Memory-efficient Stochastic methods for Memory-based
Transformers", section 2.2 and Table 4; the paper uses BERT).

T length, B batch, H heads, D width of a head, C = H * D.
"""

import torch
from fairseq.models import register_model
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.model import base_architecture, roberta_large_architecture
from fairseq.models.transformer import TransformerEncoder
from fairseq.modules import MultiheadAttention
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.multilingual_masked_lm import MultiLingualMaskedLMTask
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.architectures import register_architecture
from fairseq_plugins.models.common.encoder import PaddingAskedOnce
from fairseq_plugins.modules.common.cross_head import CrossHead
from fairseq_plugins.options.checks import check_numbers

PRE_TRAINING = (MaskedLMTask, MultiLingualMaskedLMTask)


class CrossHeadAttention(MultiheadAttention):
    """fairseq's self-attention, in which at random each head attends to the keys and values of another head (equation
    10).

    The rows of the key and value matrices are permuted, which exchanges the heads, so that torch's fused attention can
    be used unchanged. Parameters and their names are fairseq's.
    """

    @classmethod
    def extend(cls, attention: MultiheadAttention, p: float) -> None:
        """Turn a module of fairseq into this class, in place, so that its initial weights are the same."""
        attention.__class__ = cls
        attention.cross_head = CrossHead(attention.num_heads, p)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, **options):
        """As in fairseq: query, key, value [T, B, C] -> ([T, B, C], weights). ``options`` are for decoders."""
        visited = self.cross_head.draw()
        if visited is None:
            masks = {"key_padding_mask": key_padding_mask, "attn_mask": attn_mask}
            return super().forward(query, key, value, need_weights=need_weights, **masks, **options)
        k_weight, k_bias = self.crossed(self.k_proj, visited)
        v_weight, v_bias = self.crossed(self.v_proj, visited)
        return F.multi_head_attention_forward(  # as fairseq calls it
            query, key, value, self.embed_dim, self.num_heads,
            in_proj_weight=None,
            in_proj_bias=torch.cat((self.q_proj.bias, k_bias, v_bias)),
            bias_k=None,
            bias_v=None,
            add_zero_attn=False,
            dropout_p=self.dropout_module.p,
            out_proj_weight=self.out_proj.weight,
            out_proj_bias=self.out_proj.bias,
            training=True,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=True,
            q_proj_weight=self.q_proj.weight,
            k_proj_weight=k_weight,
            v_proj_weight=v_weight,
        )  # fmt: skip

    def crossed(self, projection: nn.Linear, visited: Tensor) -> tuple[Tensor, Tensor]:
        """The weight and bias of a projection, whose rows for head h are those of head visited[h]."""
        rows = torch.arange(self.embed_dim).view(self.num_heads, self.head_dim)[visited].flatten()
        rows = rows.to(projection.weight.device, non_blocking=True)
        return projection.weight.index_select(0, rows), projection.bias.index_select(0, rows)


class SentenceEncoder(PaddingAskedOnce, TransformerEncoder):
    """RoBERTa's encoder, which asks once whether there is padding."""


@register_model("roberta_cross_head")
class RobertaCrossHeadModel(RobertaModel):
    """fairseq's RoBERTa with stochastic cross-head attention in training. It loads checkpoints of RoBERTa.

    With --cross-head-p 0, and in evaluation, its results equal RoBERTa's bit for bit.
    """

    @staticmethod
    def add_args(parser):
        RobertaModel.add_args(parser)
        parser.add_argument(
            "--cross-head-p",
            type=float,
            metavar="P",
            help="probability, in training, that each head of a layer attends to another head's keys and values (0.1)",
        )

    @classmethod
    def build_model(cls, args, task):
        if isinstance(task, PRE_TRAINING):
            raise UserError(
                "roberta_cross_head is for fine-tuning only; pre-train --arch roberta and give its checkpoint with "
                "--finetune-from-model to a training of --arch roberta_cross_head."
            )
        check_numbers(args, "cross_head_p")
        if getattr(args, "mha_heads_to_keep", -1) != -1:
            raise UserError("--mha-heads-to-keep does not work with roberta_cross_head; leave it out.")
        model = super().build_model(args, task)
        model.encoder.sentence_encoder.__class__ = SentenceEncoder  # its initial weights remain
        attentions = [module for module in model.modules() if isinstance(module, MultiheadAttention)]
        for attention in attentions:
            CrossHeadAttention.extend(attention, args.cross_head_p)
        return model


# RoBERTa's sizes, and the probability of the authors' code (the text of the paper lacks the value for BERT)
ARCHITECTURES = {
    "roberta_cross_head": base_architecture,
    "roberta_cross_head_base": base_architecture,
    "roberta_cross_head_large": roberta_large_architecture,
}
for name, sizes in ARCHITECTURES.items():
    register_architecture("roberta_cross_head", name, sizes, cross_head_p=0.1)
