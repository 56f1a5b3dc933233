"""What is particular to the LSTM; tests/models/test_streaming_models.py tests it with the other models."""

import pytest
from language_models import build

from fairseq_plugins.errors import UserError


@pytest.mark.parametrize("options, words", [
    ({"decoder_head_dim": 16}, "--decoder-head-dim has no meaning for an LSTM"),
    ({"decoder_normalize_before": True}, "--decoder-normalize-before has no meaning for an LSTM"),
    ({"decoder_layers": 0}, "--decoder-layers"),
])  # fmt: skip
def test_flags_without_meaning_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        build("lstm_stream_lm_tiny", options)


def test_its_width_need_not_be_shared_by_heads():
    build("lstm_stream_lm_tiny", {"decoder_embed_dim": 30, "decoder_attention_heads": 4})


def test_the_toy_is_two_layers_of_256():
    lstm = build("lstm_stream_lm_toy").decoder.body.lstm
    assert (lstm.num_layers, lstm.hidden_size, lstm.dropout) == (2, 256, 0.2)
