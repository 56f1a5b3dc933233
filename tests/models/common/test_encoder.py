"""The encoder that asks once about padding equals fairseq's bit for bit."""

import weakref

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig, TransformerEncoderBase
from torch import nn

from fairseq_plugins.models.common.translation import TranslationEncoder

PADDED = [[1, 1, 5, 6, 2], [7, 8, 9, 10, 2]]
WITHOUT_PADDING = PADDED[1:]


def build(kind, **options):
    torch.manual_seed(1)
    cfg = TransformerConfig()
    cfg.encoder.embed_dim, cfg.encoder.ffn_embed_dim, cfg.encoder.attention_heads, cfg.encoder.layers = 16, 32, 2, 3
    cfg.encoder.normalize_before = options.pop("pre_norm", False)
    cfg.encoder.layerdrop = options.pop("layerdrop", 0.0)
    for name, value in options.items():
        setattr(cfg, name, value)
    words = Dictionary()
    for number in range(20):
        words.add_symbol(str(number))
    return kind(cfg, words, nn.Embedding(len(words), 16, words.pad()))


def run(encoder, tokens):
    """Its results, and the gradients of a training pass."""
    torch.manual_seed(2)
    results = encoder(tokens, tokens.ne(1).sum(1), return_all_hiddens=True)
    results["encoder_out"][0].square().sum().backward()
    return results, [p.grad for p in encoder.parameters() if p.grad is not None]


def assert_same(expected, got):
    for name in expected.keys() - {"fc_results"}:  # of which fairseq makes a None for each layer
        assert len(expected[name]) == len(got[name])
        assert all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(expected[name], got[name])), name


every_batch = pytest.mark.parametrize("tokens", [PADDED, WITHOUT_PADDING])


@every_batch
@pytest.mark.parametrize(
    "options",
    [{}, {"pre_norm": True, "layernorm_embedding": True}, {"layerdrop": 0.5}, {"checkpoint_activations": True}],
)
def test_results_and_gradients_equal_those_of_fairseq(tokens, options):
    theirs, ours = (build(kind, **options) for kind in (TransformerEncoderBase, TranslationEncoder))
    assert list(theirs.state_dict()) == list(ours.state_dict())
    (expected, gradients), (got, our_gradients) = (run(each.train(), torch.tensor(tokens)) for each in (theirs, ours))
    assert expected.keys() == got.keys()
    assert_same(expected, got)
    assert len(gradients) == len(our_gradients) > 0
    assert all(torch.equal(a, b) for a, b in zip(gradients, our_gradients))


@every_batch
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@torch.no_grad()
def test_evaluation_in_any_type_equals_that_of_fairseq(tokens, dtype):
    theirs, ours = (build(kind).to(dtype).eval() for kind in (TransformerEncoderBase, TranslationEncoder))
    assert_same(theirs(torch.tensor(tokens)), ours(torch.tensor(tokens)))


@torch.no_grad()
def test_the_output_of_a_layer_is_freed_once_the_next_has_read_it():
    encoder, outputs, alive = build(TranslationEncoder).eval(), [], []

    def count(module, inputs, output):
        outputs.append(weakref.ref(output))
        alive.append(sum(each() is not None for each in outputs))

    for layer in encoder.layers:
        layer.register_forward_hook(count)
    encoder(torch.tensor(PADDED))
    assert alive == [1, 2, 2]
