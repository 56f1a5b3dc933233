"""An LSTM as a language model over streams, a baseline of the Feedback paper (section 4.1.2).

fairseq's lstm_lm starts every block from zeros; here the state goes from block to block.
"""

from typing import Any

from fairseq.models import register_model

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.models.common.architectures import register_architecture
from fairseq_plugins.models.common.base import StreamingLanguageModel, StreamingLanguageModelConfig
from fairseq_plugins.modules.recurrent import LSTMStack


@register_model("lstm_stream_lm", dataclass=StreamingLanguageModelConfig)
class LSTMStreamLanguageModel(StreamingLanguageModel):
    """Embeddings, the layers of an LSTM, and an output layer. The memory is the state of the LSTM."""

    @classmethod
    def build_body(cls, config):
        for name in ("decoder_head_dim", "decoder_normalize_before"):
            if getattr(config, name):
                raise UserError(f"{flag(name)} has no meaning for an LSTM; leave it out.")
        return LSTMStack(config.decoder_embed_dim, config.decoder_layers, config.dropout)


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "tiny": {"decoder_layers": 2, "decoder_embed_dim": 64},  # for tests; not from a paper
    # the width of the other toy models, since the paper gives no sizes; with 4 layers it learned no programs
    "toy": {"decoder_layers": 2, "decoder_embed_dim": 256, "dropout": 0.2},
}
for name, defaults in ARCHITECTURES.items():
    register_architecture("lstm_stream_lm", f"lstm_stream_lm_{name}", **defaults)
