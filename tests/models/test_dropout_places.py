"""Where language models over spans drop anything in training, and by which flag: there is no place without one.

The files of the papers (recipes/PAPER/paper.json) declare the flags' values.
"""

import pytest
import torch
from language_models import build

from fairseq_plugins.modules.common import dropout
from fairseq_plugins.modules.span import joint_attention

WIDTH, FFN, HEADS = 16, 24, 2
SIZES = {
    "decoder_embed_dim": WIDTH, "decoder_attention_heads": HEADS, "attention_span": 12, "dropout": 0.125,
    "embed_dropout": 0.25, "output_dropout": 0.5,
}  # fmt: skip
EMBEDDINGS, OUTPUT = ("width", 0.25), ("width", 0.5)
WEIGHTS, ACTIVATIONS = ("attention weights", 0.125), ("feed-forward", 0.125)
WITH_FEED_FORWARD = {EMBEDDINGS, OUTPUT, WEIGHTS, ACTIVATIONS}


@pytest.fixture
def dropped(monkeypatch):
    """The place of every mask that is drawn, by its last dimension, and its rate."""
    seen = set()

    def recording(function):
        def record(like, rate, *options):
            seen.add(({WIDTH: "width", FFN: "feed-forward"}.get(like.size(-1), "attention weights"), rate))
            return function(like, rate, *options)

        return record

    for module, name in ((dropout, "draw"), (joint_attention, "draw_signs"), (torch, "native_dropout")):
        monkeypatch.setattr(module, name, recording(getattr(module, name)))
    monkeypatch.setattr(torch.nn.functional, "dropout", recording(torch.nn.functional.dropout))
    return seen


def train(arch, **options):
    model = build(arch, {**SIZES, **options}).train()
    logits, _ = model(torch.randint(4, 20, (3, 7)))
    logits.sum().backward()


@pytest.mark.parametrize("arch, options, places", [
    ("span_transformer_lm_tiny", {"decoder_ffn_embed_dim": FFN}, WITH_FEED_FORWARD),
    ("span_transformer_lm_tiny", {"decoder_ffn_embed_dim": FFN, "adaptive_span": True}, WITH_FEED_FORWARD),
    ("feedback_lm_tiny", {"decoder_ffn_embed_dim": FFN}, WITH_FEED_FORWARD),
    ("all_attention_lm_tiny", {"persistent_vectors": 6}, {EMBEDDINGS, OUTPUT, WEIGHTS}),
    ("all_attention_lm_tiny", {"persistent_vectors": 6, "persistent_integration": "attn-split"},
        {EMBEDDINGS, OUTPUT, WEIGHTS}),
])  # fmt: skip
def test_dropout_is_where_its_flags_say(arch, options, places, dropped):
    train(arch, **options)
    assert dropped == places


def test_nothing_is_dropped_at_the_rate_of_zero(dropped):
    for arch in ("span_transformer_lm_tiny", "feedback_lm_tiny", "all_attention_lm_tiny"):
        train(arch, dropout=0.0, embed_dropout=0.0, output_dropout=0.0)
    assert not dropped
