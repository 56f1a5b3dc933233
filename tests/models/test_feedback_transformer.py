"""The model through fairseq's own interfaces: parameter counts, architectures, beam search, rescoring, refusals."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from plain_recurrence import PlainRecurrence

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.feedback_transformer import FeedbackTransformerModel
from fairseq_plugins.modules.feedback.stack import FORMER_ENGINES

WORDS = 20
SENTENCES = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14], [4, 5, 6, 7, 8, 9, 10]]


@pytest.fixture(scope="module")
def dictionary():
    dictionary = Dictionary()
    for i in range(WORDS):
        dictionary.add_symbol(f"w{i}")
    return dictionary


def build(dictionary, arch="feedback_transformer_tiny", cls=FeedbackTransformerModel, **options):
    torch.manual_seed(0)
    args = Namespace(arch=arch, **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    model = cls.build_model(args, SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary))
    return model.double().eval()


def batch(dictionary, sentences, left_pad=True):
    rows = [torch.tensor([*s, dictionary.eos()]) for s in sentences]
    return {
        "src_tokens": data_utils.collate_tokens(rows, dictionary.pad(), left_pad=left_pad),
        "src_lengths": torch.tensor([len(r) for r in rows]),
    }


def targets(dictionary, sentences, left_pad=False):
    """Previous output tokens and targets of a batch."""
    rows = [torch.tensor([*s, dictionary.eos()]) for s in sentences]
    pad, eos = dictionary.pad(), dictionary.eos()
    return (
        data_utils.collate_tokens(rows, pad, eos, left_pad=left_pad, move_eos_to_beginning=True),
        data_utils.collate_tokens(rows, pad, left_pad=left_pad),
    )


def generate(model, dictionary, sentences, beam=4):
    generator = SequenceGenerator([model], dictionary, beam_size=beam, max_len_b=12)
    with torch.no_grad():
        hypotheses = generator.generate([model], {"net_input": batch(dictionary, sentences)})
    return [[(h["tokens"].tolist(), float(h["score"])) for h in beams] for beams in hypotheses]


def assert_same_hypotheses(got, expected):
    for a, b in zip(got, expected, strict=True):
        assert [tokens for tokens, _ in a] == [tokens for tokens, _ in b]
        assert [score for _, score in a] == pytest.approx([score for _, score in b], abs=1e-9)


def count(model):
    return sum(p.numel() for p in model.parameters())


SMALL = dict(share_decoder_input_output_embed=True, dropout=0.1)
for _side in ("encoder", "decoder"):
    SMALL |= {f"{_side}_{k}": v for k, v in dict(embed_dim=64, ffn_embed_dim=128, attention_heads=2, layers=2).items()}


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_the_only_new_parameters_are_one_scalar_a_layer(dictionary, layers):
    sizes = {**SMALL, "decoder_layers": layers}
    plain = build(dictionary, "transformer", TransformerModel, **sizes)
    feedback = build(dictionary, "feedback_transformer", **sizes, feedback_kv="per-layer")
    assert count(feedback) - count(plain) == layers + 1


def test_sharing_saves_the_keys_and_values_of_all_layers_but_one(dictionary):
    per_layer, shared = (build(dictionary, feedback_kv=kv, decoder_layers=4) for kv in ("per-layer", "shared"))
    assert count(per_layer) - count(shared) == 3 * 2 * (64 * 64 + 64)


@pytest.mark.parametrize(
    "arch, encoder_layers, decoder_layers, width, ffn, heads",
    [
        ("feedback_transformer_wmt", 6, 6, 1024, 4096, 16),
        ("feedback_transformer_wmt_12_2", 12, 2, 1024, 4096, 16),
        ("feedback_transformer_iwslt", 6, 6, 512, 1024, 4),
        ("feedback_transformer_cnndm", 6, 6, 512, 2048, 8),
    ],
)
def test_architectures_of_table_8(arch, encoder_layers, decoder_layers, width, ffn, heads):
    args = Namespace()
    ARCH_CONFIG_REGISTRY[arch](args)
    assert (args.encoder_layers, args.decoder_layers) == (encoder_layers, decoder_layers)
    for side in ("encoder", "decoder"):
        assert getattr(args, f"{side}_embed_dim") == width
        assert getattr(args, f"{side}_ffn_embed_dim") == ffn
        assert getattr(args, f"{side}_attention_heads") == heads
        assert not getattr(args, f"{side}_normalize_before")
    assert (args.dropout, args.feedback_kv, args.feedback_memory) == (0.3, "shared", "weighted")
    assert args.encoder_layerdrop == (0.1 if arch.endswith("12_2") else 0)


OPTIONS = [
    {},
    {"feedback_kv": "per-layer", "decoder_normalize_before": True, "encoder_normalize_before": True},
    {"feedback_memory": "recurrent", "feedback_kv": "per-layer"},
    {"feedback_memory": "top", "feedback_engine": "eager"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_step_by_step_logits_equal_the_full_pass(dictionary, options):
    model = build(dictionary, **options)
    source, (previous, _) = batch(dictionary, SENTENCES), targets(dictionary, SENTENCES)
    with torch.no_grad():
        full, _ = model(**source, prev_output_tokens=previous)
        encoder_out, state = model.encoder(**source), {}
        for t in range(previous.size(1)):
            step, _ = model.decoder(previous[:, : t + 1], encoder_out, incremental_state=state)
            real = previous[:, t] != dictionary.pad()
            assert torch.allclose(step[real, 0], full[real, t], atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_batch_translates_as_one_by_one(dictionary, options):
    model = build(dictionary, **options)
    together = generate(model, dictionary, SENTENCES)
    assert_same_hypotheses(together, [generate(model, dictionary, [s])[0] for s in SENTENCES])


def test_beam_search_equals_that_of_the_plain_loop(dictionary):
    fast, plain = build(dictionary), build(dictionary)
    plain.decoder.layers[0].engine = PlainRecurrence
    assert_same_hypotheses(generate(fast, dictionary, SENTENCES), generate(plain, dictionary, SENTENCES))


@pytest.mark.parametrize("former", FORMER_ENGINES)
def test_engines_of_earlier_versions_compute_the_same(dictionary, former):
    today, earlier = (build(dictionary, feedback_engine=engine) for engine in (FORMER_ENGINES[former], former))
    assert today.decoder.layers[0].engine is earlier.decoder.layers[0].engine
    assert_same_hypotheses(generate(today, dictionary, SENTENCES), generate(earlier, dictionary, SENTENCES))


def test_shuffled_beams_continue_as_their_own_hypotheses(dictionary):
    model = build(dictionary)
    source, (previous, _) = batch(dictionary, SENTENCES), targets(dictionary, SENTENCES)
    order = torch.tensor([2, 0, 3, 1])
    with torch.no_grad():
        full, _ = model(**source, prev_output_tokens=previous)
        encoder_out, state = model.encoder(**source), {}
        for t in range(previous.size(1)):
            if t == 2:
                model.decoder.reorder_incremental_state_scripting(state, order)
                encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
                previous, full = previous[order], full[order]
            step, _ = model.decoder(previous[:, : t + 1], encoder_out, incremental_state=state)
            real = previous[:, t] != dictionary.pad()
            assert torch.allclose(step[real, 0], full[real, t], atol=1e-12)


def test_encoder_output_in_a_new_order_serves_a_full_pass_too(dictionary):
    model = build(dictionary)
    source, (previous, _) = batch(dictionary, SENTENCES), targets(dictionary, SENTENCES)
    first, second = torch.tensor([3, 1, 0, 2]), torch.tensor([1, 1, 2])
    with torch.no_grad():
        encoder_out = model.encoder(**source)
        moved = model.encoder.reorder_encoder_out(model.encoder.reorder_encoder_out(encoder_out, first), second)
        rows = first[second]
        got, _ = model.decoder(previous[rows], moved)
        assert torch.allclose(got, model.decoder(previous, encoder_out)[0][rows], atol=1e-12)


def test_equal_sentences_beside_each_other_are_not_taken_for_beams(dictionary):
    model = build(dictionary)
    generate(model, dictionary, SENTENCES, beam=2)
    sentences = [SENTENCES[i] for i in (0, 0, 1, 1)]
    expected = [generate(model, dictionary, [s], beam=1)[0] for s in sentences]
    assert_same_hypotheses(generate(model, dictionary, sentences, beam=1), expected)


def test_an_ensemble_of_one_model_twice_translates_as_that_model(dictionary):
    model, twin = build(dictionary), build(dictionary)
    generator = SequenceGenerator([model, twin], dictionary, beam_size=4, max_len_b=12)
    with torch.no_grad():
        hypotheses = generator.generate([model, twin], {"net_input": batch(dictionary, SENTENCES)})
    got = [[h["tokens"].tolist() for h in beams] for beams in hypotheses]
    assert got == [[tokens for tokens, _ in beams] for beams in generate(model, dictionary, SENTENCES)]


def test_a_given_prefix_is_continued(dictionary):
    model = build(dictionary)
    generator = SequenceGenerator([model], dictionary, beam_size=4, max_len_b=12)
    prefix = torch.tensor([[9, 8], [7, 6], [5, 4], [4, 4]])
    with torch.no_grad():
        hypotheses = generator.generate([model], {"net_input": batch(dictionary, SENTENCES)}, prefix_tokens=prefix)
    assert [beams[0]["tokens"][:2].tolist() for beams in hypotheses] == prefix.tolist()


def test_rescoring_gives_the_score_of_the_generator(dictionary):
    model = build(dictionary)
    for sentence, hypotheses in zip(SENTENCES, generate(model, dictionary, SENTENCES)):
        tokens, score = hypotheses[0]
        previous, target = targets(dictionary, [tokens[:-1]])
        sample = {"net_input": {**batch(dictionary, [sentence]), "prev_output_tokens": previous}, "target": target}
        with torch.no_grad():
            ((scored,),) = SequenceScorer(dictionary).generate([model], sample)
        assert float(scored["score"]) == pytest.approx(score, abs=1e-6)  # kept in float32


@pytest.mark.parametrize("left_pad", [False, True])
def test_padding_changes_nothing(dictionary, left_pad):
    model = build(dictionary)
    previous, target = targets(dictionary, SENTENCES, left_pad)
    with torch.no_grad():
        together = model.get_normalized_probs(model(**batch(dictionary, SENTENCES), prev_output_tokens=previous), True)
        for row, sentence in enumerate(SENTENCES):
            single, _ = targets(dictionary, [sentence])
            alone = model(**batch(dictionary, [sentence], left_pad=False), prev_output_tokens=single)
            alone = model.get_normalized_probs(alone, True)[0]
            assert torch.allclose(together[row, target[row] != dictionary.pad()], alone, atol=1e-12)


def test_a_later_token_changes_no_earlier_output(dictionary):
    model = build(dictionary)
    source, (previous, _) = batch(dictionary, SENTENCES), targets(dictionary, SENTENCES)
    changed = previous.clone()
    changed[0, 3] = 15
    with torch.no_grad():
        before, after = (model(**source, prev_output_tokens=p)[0] for p in (previous, changed))
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[0, 3:], after[0, 3:])


def test_generation_reports_attention_to_the_source(dictionary):
    model = build(dictionary)
    generator = SequenceGenerator([model], dictionary, beam_size=2, max_len_b=5)
    with torch.no_grad():
        hypotheses = generator.generate([model], {"net_input": batch(dictionary, SENTENCES[:2])})
    attention = hypotheses[1][0]["attention"]  # [source, target]; the source is padded on the left
    assert torch.allclose(attention.sum(0), torch.ones(attention.size(1)), atol=1e-5)
    assert not attention[:3].any()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"decoder_attention_heads": 5}, "--decoder-embed-dim 64 is not divisible by --decoder-attention-heads 5"),
        ({"encoder_attention_heads": 3}, "--encoder-embed-dim 64 is not divisible by --encoder-attention-heads 3"),
        ({"feedback_memory": "layer-3"}, "layer-3.*--feedback-memory"),
        ({"decoder_layerdrop": 0.1}, "--decoder-layerdrop"),
        ({"checkpoint_activations": True}, "--checkpoint-activations"),
        ({"quant_noise_pq": 0.1}, "--quant-noise-pq"),
        ({"no_cross_attention": True}, "--no-cross-attention"),
        ({"decoder_xformers_att_config": "{}"}, "--decoder-xformers-att-config"),
        ({"export": True}, "--export"),
        ({"activation_fn": "relu_squared"}, "--activation-fn"),
    ],
)
def test_options_that_the_model_cannot_honour_are_refused(dictionary, options, message):
    with pytest.raises(UserError, match=message):
        build(dictionary, **options)


def test_dropout_is_retained_in_the_encoder_only(dictionary):
    model = build(dictionary, dropout=0.1)
    with pytest.raises(UserError, match="--retain-dropout-modules"):
        model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=None)
    model = build(dictionary, dropout=0.1)
    model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=["TransformerEncoder"])
    assert model.encoder.dropout_module.apply_during_inference
    assert not model.decoder.dropout_module.apply_during_inference


def test_export_is_refused(dictionary):
    model = build(dictionary)
    with pytest.raises(UserError, match="TorchScript"):
        torch.jit.script(model)
    with pytest.raises(UserError, match="ONNX"):
        model.prepare_for_onnx_export_()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"decoder_attention_heads": 0}, "--decoder-attention-heads 0"),
        ({"decoder_layers": 0}, "--decoder-layers 0"),
        ({"dropout": 1.5}, "--dropout 1.5"),
    ],
)
def test_numbers_out_of_range_are_refused(dictionary, options, message):
    with pytest.raises(UserError, match=message):
        build(dictionary, **options)
