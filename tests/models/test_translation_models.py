"""The translation models through fairseq's interfaces: decoding, padding, beam search, rescoring, refusals."""

from argparse import Namespace

import fairseq.utils
import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from plain_recurrence import PlainRecurrence
from translation_models import (
    ACTIVE_MEMORY,
    DICTIONARY,
    FEEDBACK,
    MODELS,
    PAD,
    SENTENCES,
    batch,
    build,
    collate,
    previous,
    source,
)

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.feedback.stack import FORMER_ENGINES

every_model = pytest.mark.parametrize("arch, options", MODELS.values(), ids=MODELS)


@pytest.fixture(autouse=True)
def double_precision(monkeypatch):
    """fairseq's softmax of the attention to the source is in single precision whatever the precision of the model."""
    monkeypatch.setattr(fairseq.utils, "softmax", lambda x, dim, onnx_trace=False: x.softmax(dim))


@torch.no_grad()
def generate(model, sentences, beam=4):
    generator = SequenceGenerator([model], DICTIONARY, beam_size=beam, max_len_b=12)
    hypotheses = generator.generate([model], {"net_input": source(sentences)})
    return [[(h["tokens"].tolist(), float(h["score"])) for h in beams] for beams in hypotheses]


def assert_same_hypotheses(got, expected):
    for a, b in zip(got, expected, strict=True):
        assert [tokens for tokens, _ in a] == [tokens for tokens, _ in b]
        assert [score for _, score in a] == pytest.approx([score for _, score in b], abs=1e-6)


@every_model
@torch.no_grad()
def test_step_by_step_logits_equal_the_full_pass(arch, options):
    model, before = build(arch, **options), previous(SENTENCES)
    full, _ = model(**batch(SENTENCES))
    encoder_out, state = model.encoder(**source(SENTENCES)), {}
    for t in range(before.size(1)):
        if t == 2 and arch == FEEDBACK:  # fairseq's own attention to the source only reorders beams of one sentence
            order = torch.tensor([2, 0, 3, 1])
            model.decoder.reorder_incremental_state_scripting(state, order)
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
            before, full = before[order], full[order]
        step, _ = model.decoder(before[:, : t + 1], encoder_out, incremental_state=state)
        real = before[:, t] != PAD
        assert torch.allclose(step[real, 0], full[real, t], atol=1e-10)


@every_model
def test_beam_search_gives_a_sentence_its_own_hypotheses_and_scores(arch, options):
    """In a batch those of the sentence alone; the scores are those of rescoring."""
    model = build(arch, **options)
    together = generate(model, SENTENCES)
    assert_same_hypotheses(together, [generate(model, [s])[0] for s in SENTENCES])
    for sentence, ((tokens, score), *_) in zip(SENTENCES, together):
        sample = {"net_input": source([sentence]) | {"prev_output_tokens": previous([tokens[:-1]])}}
        with torch.no_grad():
            ((scored,),) = SequenceScorer(DICTIONARY).generate([model], sample | {"target": torch.tensor([tokens])})
        assert float(scored["score"]) == pytest.approx(score, abs=1e-6)


PADDED = [(*model, False) for model in MODELS.values()] + [(FEEDBACK, {}, True)]  # the last has padding on the left


@pytest.mark.parametrize("arch, options, left_pad", PADDED, ids=[*MODELS, "feedback-left"])
@torch.no_grad()
def test_padding_changes_nothing(arch, options, left_pad):
    model, target = build(arch, **options), collate(SENTENCES, left_pad)
    together, _ = model(**source(SENTENCES), prev_output_tokens=previous(SENTENCES, left_pad))
    for row, sentence in enumerate(SENTENCES):
        alone, _ = model(**source([sentence]), prev_output_tokens=previous([sentence]))
        assert torch.allclose(together[row, target[row] != PAD], alone[0], atol=1e-10)


# Feedback


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_the_only_new_parameters_are_one_scalar_a_layer():
    """Sharing saves the keys and values of all layers but one."""
    sizes = Namespace()
    ARCH_CONFIG_REGISTRY[FEEDBACK](sizes)
    same = {name: value for name, value in vars(sizes).items() if not name.startswith("feedback")}
    for layers in (1, 4):
        plain = count(build("transformer", **same | {"decoder_layers": layers}))
        per_layer, shared = (
            count(build(FEEDBACK, feedback_kv=kv, decoder_layers=layers)) for kv in ("per-layer", "shared")
        )
        assert (per_layer - plain, per_layer - shared) == (layers + 1, (layers - 1) * 2 * (64 * 64 + 64))


def test_beam_search_equals_that_of_the_plain_loop():
    fast, plain = build(FEEDBACK), build(FEEDBACK)
    plain.decoder.layers[0].engine = PlainRecurrence
    assert_same_hypotheses(generate(fast, SENTENCES), generate(plain, SENTENCES))


@pytest.mark.parametrize("former", FORMER_ENGINES)
def test_engines_of_earlier_versions_are_those_of_today(former):
    today, earlier = (build(FEEDBACK, feedback_engine=engine) for engine in (FORMER_ENGINES[former], former))
    assert today.decoder.layers[0].engine is earlier.decoder.layers[0].engine


@torch.no_grad()
def test_encoder_output_in_a_new_order_serves_a_full_pass_too():
    model, before = build(FEEDBACK), previous(SENTENCES)
    encoder_out, moved = model.encoder(**source(SENTENCES)), model.encoder(**source(SENTENCES))
    first, second = torch.tensor([3, 1, 0, 2]), torch.tensor([1, 1, 2])
    for order in (first, second):
        moved = model.encoder.reorder_encoder_out(moved, order)
    rows = first[second]
    got, _ = model.decoder(before[rows], moved)
    assert torch.allclose(got, model.decoder(before, encoder_out)[0][rows], atol=1e-12)


def test_equal_sentences_beside_each_other_are_not_taken_for_beams():
    model = build(FEEDBACK)
    sentences = [SENTENCES[i] for i in (0, 0, 1, 1)]
    expected = [generate(model, [s], beam=1)[0] for s in sentences]
    assert_same_hypotheses(generate(model, sentences, beam=1), expected)


@torch.no_grad()
def test_generation_reports_attention_to_the_source():
    model = build(FEEDBACK)
    generator = SequenceGenerator([model], DICTIONARY, beam_size=2, max_len_b=5)
    hypotheses = generator.generate([model], {"net_input": source(SENTENCES[:2])})
    attention = hypotheses[1][0]["attention"]  # [source, target]; the source is padded on the left
    assert torch.allclose(attention.sum(0), torch.ones(attention.size(1)), atol=1e-5)
    assert not attention[:3].any()


def test_dropout_is_retained_in_the_encoder_only():
    model = build(FEEDBACK, dropout=0.1)
    with pytest.raises(UserError, match="--retain-dropout-modules"):
        model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=None)
    model = build(FEEDBACK, dropout=0.1)
    model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=["TransformerEncoder"])
    assert model.encoder.dropout_module.apply_during_inference
    assert not model.decoder.dropout_module.apply_during_inference


def test_export_is_refused():
    model = build(FEEDBACK)
    with pytest.raises(UserError, match="TorchScript"):
        torch.jit.script(model)
    with pytest.raises(UserError, match="ONNX"):
        model.prepare_for_onnx_export_()


# Active memory


def test_layers_share_persistent_vectors_and_layer_drop_changes_nothing_of_them():
    model = build(ACTIVE_MEMORY, mixer="persistent-convolution", decoder_layers=4, decoder_layerdrop=0.9)
    ends = [name for name, _ in model.named_parameters() if ".ends." in name]
    assert len(ends) == 2  # those behind a causal sequence are none
    assert len([module for module in model.modules() if type(module).__name__ == "MixerAttention"]) == 4


def test_the_scores_of_self_attention_are_scaled_as_the_flag_says():
    model = build(ACTIVE_MEMORY, mixer="self-attention", attention_scaling="sqrt-times-width")
    assert {layer.self_attn.mixer.scale for layer in model.decoder.layers} == {32**-1.5}


@pytest.mark.parametrize("arch, options, words", [
    (FEEDBACK, {"decoder_attention_heads": 5},
        "--decoder-embed-dim 64 is not divisible by --decoder-attention-heads 5"),
    (FEEDBACK, {"encoder_attention_heads": 3},
        "--encoder-embed-dim 64 is not divisible by --encoder-attention-heads 3"),
    (FEEDBACK, {"decoder_attention_heads": 0}, "--decoder-attention-heads 0"),
    (FEEDBACK, {"dropout": 1.5}, "--dropout 1.5"),
    (FEEDBACK, {"feedback_memory": "layer-3"}, "layer-3.*--feedback-memory"),
    (FEEDBACK, {"decoder_layerdrop": 0.1}, "--decoder-layerdrop"),
    (FEEDBACK, {"checkpoint_activations": True}, "--checkpoint-activations"),
    (FEEDBACK, {"quant_noise_pq": 0.1}, "--quant-noise-pq"),
    (FEEDBACK, {"no_cross_attention": True}, "--no-cross-attention"),
    (FEEDBACK, {"decoder_xformers_att_config": "{}"}, "--decoder-xformers-att-config"),
    (FEEDBACK, {"export": True}, "--export"),
    (FEEDBACK, {"activation_fn": "relu_squared"}, "--activation-fn"),
    (ACTIVE_MEMORY, {"cross_self_attention": True}, "--cross-self-attention does not work with this decoder: mixing"),
    (ACTIVE_MEMORY, {"encoder_layers": 0}, "--encoder-layers 0 does not fit"),
    (ACTIVE_MEMORY, {"left_pad_target": True}, "--left-pad-target does not work"),
    (ACTIVE_MEMORY, {"kernel_size": 0}, "--kernel-size 0 does not fit; give a whole number of at least 1"),
])  # fmt: skip
def test_options_that_the_model_cannot_honour_are_refused(arch, options, words):
    with pytest.raises(UserError, match=words):
        build(arch, **options)


@pytest.mark.parametrize("arch", [FEEDBACK, ACTIVE_MEMORY])
def test_an_adaptive_softmax_beside_shared_embeddings_is_loaded_as_it_was_saved(arch):
    model = build(arch, adaptive_softmax_cutoff="8,16", share_decoder_input_output_embed=True)
    assert model.decoder.adaptive_softmax is not None
    model.load_state_dict(model.state_dict())
