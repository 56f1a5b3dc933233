"""fairseq's Transformer encoder, which waits for a GPU once and not once for each layer.

B batch, S length of the source, C width.
"""

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor


class PaddingAskedOnce(TransformerEncoderBase):
    """fairseq's encoder with the same results, bit for bit, but for `fc_results`, which stay empty.

    fairseq asks before each layer whether a batch has padding, and the host waits for the GPU's answer.
    """

    def forward_scriptable(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> dict[str, list]:
        """src_tokens [B, S] -> output [S, B, C], padding [B, S], embeddings [B, S, C], lengths [B, 1], and with
        ``return_all_hiddens`` the input of the first layer and the output of each. The arguments are as in fairseq."""
        padding = src_tokens.eq(self.padding_idx)
        has_padding = src_tokens.device.type == "xla" or bool(padding.any())
        x, embedding = self.forward_embedding(src_tokens, token_embeddings)
        if has_padding:
            x = x * (1 - padding.unsqueeze(-1).type_as(x))
        x = x.transpose(0, 1)
        states = [x] if return_all_hiddens else []
        for layer in self.layers:
            x = layer(x, encoder_padding_mask=padding if has_padding else None)
            if return_all_hiddens:  # else the output of a layer is freed once the next one has read it
                states.append(x)
        return {
            "encoder_out": [x if self.layer_norm is None else self.layer_norm(x)],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [embedding],
            "encoder_states": states,
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~padding).sum(1, keepdim=True, dtype=torch.int32)],
        }
