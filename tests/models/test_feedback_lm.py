"""What only the Feedback language model has; what all language models share is in test_streaming_models.py."""

import pytest
import torch
from language_models import build

from fairseq_plugins.errors import UserError


def test_keys_and_values_per_layer_give_the_count_of_table_9():
    with torch.device("meta"):
        model = build("feedback_lm_wikitext103_large", {"feedback_kv": "per-layer"}, vocabulary=267735)
    assert sum(parameter.numel() for parameter in model.parameters()) == pytest.approx(139e6, rel=0.01)


def test_the_weights_of_the_memory_are_logged_on_demand():
    def learned(**options):
        return build("feedback_lm_tiny", options).learned()

    assert learned() == {}
    assert learned(log_learned=True) == pytest.approx({f"memory_{layer}": 1 / 3 for layer in range(3)})
    assert learned(log_learned=True, feedback_memory="top") == {}


@pytest.mark.parametrize(
    "options, words",
    [
        ({"feedback_memory": "layer-3"}, "memory layer-3 does not exist"),
        ({"feedback_memory": "best"}, "memory 'best' is not known"),
        ({"decoder_attention_heads": 3}, "--decoder-embed-dim 64 is not divisible by --decoder-attention-heads 3"),
        ({"attention_span": 0}, "--attention-span 0 does not fit"),
        (
            {"normalise_memory_twice": True, "decoder_normalize_before": False},
            "--normalise-memory-twice needs --decoder-normalize-before",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        build("feedback_lm_tiny", options)
