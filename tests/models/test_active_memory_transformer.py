"""Active memory as the decoder of a translation model, through fairseq's interfaces."""

from argparse import Namespace
from types import SimpleNamespace

import fairseq.utils
import pytest
import torch
from fairseq.data import data_utils
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from language_models import VOCABULARY, Vocabulary

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.active_memory_transformer import ActiveMemoryTransformer
from fairseq_plugins.modules.active_memory.mixers import MIXERS

DICTIONARY = Vocabulary(VOCABULARY)
SENTENCES = [[5, 6, 7, 8, 9, 10, 11, 12], [10, 11], [12, 13, 14]]
every_mixer = pytest.mark.parametrize("mixer", MIXERS)


def build(**options):
    torch.manual_seed(0)
    args = Namespace(**options)
    ARCH_CONFIG_REGISTRY["active_memory_transformer_tiny"](args)
    task = SimpleNamespace(source_dictionary=DICTIONARY, target_dictionary=DICTIONARY)
    return ActiveMemoryTransformer.build_model(args, task).double().eval()


def collate(rows, left_pad):
    return data_utils.collate_tokens([torch.tensor(row) for row in rows], DICTIONARY.pad(), left_pad=left_pad)


def batch(sentences):
    """Source and previous output tokens: the target is the source."""
    eos = DICTIONARY.eos()
    return {
        "src_tokens": collate([[*row, eos] for row in sentences], left_pad=True),
        "src_lengths": torch.tensor([len(row) + 1 for row in sentences]),
        "prev_output_tokens": collate([[eos, *row] for row in sentences], left_pad=False),
    }


@every_mixer
@torch.no_grad()
def test_a_padded_batch_equals_its_sentences_one_by_one(mixer, monkeypatch):
    """But for fairseq's softmax of the attention to the source, which is single precision whatever the model's is."""
    monkeypatch.setattr(fairseq.utils, "softmax", lambda x, dim, onnx_trace=False: x.softmax(dim))
    model = build(mixer=mixer)
    together, _ = model(**batch(SENTENCES))
    for row, expected in zip(SENTENCES, together):
        alone, _ = model(**batch([row]))
        torch.testing.assert_close(expected[: alone.size(1)], alone[0], rtol=0, atol=1e-9)


@every_mixer
@torch.no_grad()
def test_the_future_changes_nothing(mixer):
    model, x = build(mixer=mixer), batch(SENTENCES[:1])
    before, _ = model(**x)
    x["prev_output_tokens"][0, 5] = 20
    after, _ = model(**x)
    torch.testing.assert_close(after[:, :5], before[:, :5], rtol=0, atol=1e-12)
    assert not torch.allclose(after[:, 5], before[:, 5])


@every_mixer
@torch.no_grad()
def test_beam_search_scores_are_those_of_the_whole_sentence(mixer):
    model = build(mixer=mixer)
    generator = SequenceGenerator([model], DICTIONARY, beam_size=3, min_len=8, max_len_b=8, normalize_scores=False)
    sources = {name: x for name, x in batch(SENTENCES).items() if name != "prev_output_tokens"}
    for row, (best, *_) in zip(SENTENCES, generator.generate([model], {"net_input": sources}), strict=True):
        whole = batch([row])
        whole["prev_output_tokens"] = torch.cat([torch.tensor([DICTIONARY.eos()]), best["tokens"][:-1]]).unsqueeze(0)
        lprobs = model.get_normalized_probs(model(**whole), log_probs=True)
        picked = lprobs[0].gather(-1, best["tokens"].unsqueeze(-1)).squeeze(-1)
        torch.testing.assert_close(best["positional_scores"].double(), picked.double(), rtol=0, atol=1e-5)


def test_layers_share_persistent_vectors_and_layer_drop_changes_nothing_of_them():
    model = build(mixer="persistent-convolution", decoder_layers=4, decoder_layerdrop=0.9)
    ends = [name for name, _ in model.named_parameters() if ".ends." in name]
    assert len(ends) == 2  # those behind a causal sequence are none
    assert len([module for module in model.modules() if type(module).__name__ == "MixerAttention"]) == 4


def test_the_scores_of_self_attention_are_scaled_as_the_flag_says():
    model = build(mixer="self-attention", attention_scaling="sqrt-times-width")
    assert {layer.self_attn.mixer.scale for layer in model.decoder.layers} == {32**-1.5}


@pytest.mark.parametrize("options, words", [
    ({"cross_self_attention": True}, "--cross-self-attention does not work with this decoder: mixing"),
    ({"dropout": 2}, "--dropout 2 does not fit"),
    ({"decoder_attention_heads": 3}, "--decoder-embed-dim 64 is not divisible by --decoder-attention-heads 3"),
    ({"encoder_layers": 0}, "--encoder-layers 0 does not fit"),
    ({"left_pad_target": True}, "--left-pad-target does not work"),
    ({"kernel_size": 0}, "--kernel-size 0 does not fit; give a whole number of at least 1"),
])  # fmt: skip
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(UserError, match=words):
        build(**options)
