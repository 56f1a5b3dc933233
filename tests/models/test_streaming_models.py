"""The language models through fairseq's interfaces: sizes, memory, decoding, generation, refusals."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from architectures import Vocabulary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from language_models import ADAPTIVE_IO, ADAPTIVE_SPAN, FAMILIES, LINE_MODELS, MODELS, VOCABULARY, build, make, tokens
from omegaconf import OmegaConf

from fairseq_plugins.criterions.label_cross_entropy import LabelCrossEntropyCriterion
from fairseq_plugins.errors import UserError
from fairseq_plugins.models.common.base import StreamingLanguageModel
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.tools.label_accuracy import labels_right


def test_every_registered_family_is_tested():
    models = {name: model for name, model in ARCH_MODEL_REGISTRY.items() if issubclass(model, StreamingLanguageModel)}
    ours = {model for model in models.values() if model.__module__.startswith("fairseq_plugins.")}
    assert {models[arch] for arch in FAMILIES} == ours


def normalised(model, output):
    """Log-probabilities in float64, which fairseq's own are not."""
    if isinstance(model, StreamingLanguageModel):
        return model.get_normalized_probs(output, log_probs=True)
    return output[0].log_softmax(-1)


def log_probs(model, src_tokens, **memory):
    return normalised(model, model(src_tokens, **memory))


every_model = pytest.mark.parametrize("arch, options", MODELS.values(), ids=MODELS)
every_decoder = pytest.mark.parametrize("arch, options", (MODELS | LINE_MODELS).values(), ids=MODELS | LINE_MODELS)
every_family = pytest.mark.parametrize("arch", FAMILIES)
every_family_with_spans = pytest.mark.parametrize(
    "arch", sorted({arch for arch, options in MODELS.values() if "adaptive_span" in options})
)


class Labels:
    """A task and its data: one block, whose labels are its tokens. The first token is no label."""

    def __init__(self, x):
        self.x, self.pad, self.labels = x, x[0, 0].item(), x.flatten().numpy()

    def __len__(self):
        return self.x.numel()

    def __getitem__(self, block):
        return {"net_input": {"src_tokens": self.x}, "target": self.x}

    def positions(self, block):
        return np.arange(len(self)).reshape(self.x.shape)

    def stream_iterator(self, dataset, streams):
        return SimpleNamespace(frozen_batches=[[0]])

    def with_memory(self, sample):
        return sample


@pytest.mark.parametrize("arch", ["feedback_lm_tiny", "lstm_stream_lm_tiny"])
def test_labels_are_learned_through_an_adaptive_softmax(arch):
    model, x = make(arch, ADAPTIVE_IO), tokens()
    criterion = LabelCrossEntropyCriterion(SimpleNamespace(target_dictionary=None))
    criterion.padding_idx = x[0, 0]  # so this token is no label
    loss, labels, logged = criterion(
        model, {"net_input": {"src_tokens": x}, "target": x, "ntokens": 60, "nsentences": 3}
    )
    labelled = x.ne(x[0, 0])
    expected = model.token_nll(model(x), x)[labelled].sum()
    assert labels == labelled.sum() and loss.item() == pytest.approx(expected.item(), rel=1e-5)
    wrong = log_probs(model, x).argmax(-1).ne(x) & labelled
    assert logged["wrong"] == wrong.sum()
    assert labels_right(model, Labels(x), Labels(x), streams=3).sum() == (labelled & ~wrong).sum()
    loss.backward()
    assert all(weight.grad.abs().sum() > 0 for weight in model.decoder.output.parameters())


@every_model
@torch.no_grad()
def test_blocks_with_memory_equal_one_long_block(arch, options):
    model, x, memory = make(arch, options), tokens(), StreamMemory()
    blocks = [log_probs(model, block, memory=memory) for block in x.split([3, 9, 8], dim=1)]
    assert torch.allclose(torch.cat(blocks, dim=1), log_probs(model, x), atol=1e-10)
    assert memory.position == 20


@every_decoder
@torch.no_grad()
def test_decoding_step_by_step_equals_the_block(arch, options):
    model, x, state = make(arch, options), tokens(), {}
    steps = []
    for t in range(1, x.size(1) + 1):
        scores, extra = model.decoder(x[:, :t], encoder_out=None, incremental_state=state)
        assert scores.shape == (3, 1, VOCABULARY) and extra["attn"] is None
        steps.append(normalised(model, (scores, extra)))
    assert torch.allclose(torch.cat(steps, dim=1), log_probs(model, x), atol=1e-10)


@every_model
@torch.no_grad()
def test_losses_of_tokens_are_their_log_probabilities(arch, options):
    model, x = make(arch, options), tokens()
    target = tokens().flip(1)
    expected = -log_probs(model, x).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(model.token_nll(model(x), target), expected, atol=1e-12)
    assert torch.allclose(model.get_normalized_probs(model(x), log_probs=False).sum(-1), torch.ones(3, 20).double())


@every_decoder
def test_beam_search_scores_are_those_of_the_whole_sequence(arch, options):
    """Twelve tokens are written, in any order of the beams; their scores are then read off one pass."""
    model, dictionary = make(arch, options), Vocabulary(VOCABULARY)
    generator = SequenceGenerator([model], dictionary, beam_size=4, min_len=12, max_len_b=12, normalize_scores=False)
    prompt = tokens(2, 3)
    hypotheses = generator.generate([model], {"net_input": {"src_tokens": prompt}}, prefix_tokens=prompt)
    for row, beams in zip(prompt, hypotheses, strict=True):
        best = beams[0]
        assert best["tokens"][:3].tolist() == row.tolist()
        previous = torch.cat([torch.tensor([dictionary.eos()]), best["tokens"][:-1]]).unsqueeze(0)
        picked = log_probs(model, previous)[0].gather(-1, best["tokens"].unsqueeze(-1))
        assert torch.allclose(best["positional_scores"].double(), picked.squeeze(-1), atol=1e-5)


@every_family
def test_one_memory_serves_one_model(arch):
    model, memory = make(arch), StreamMemory()
    model(tokens(), memory=memory)
    with pytest.raises(ValueError, match="of another model"):
        make(arch)(tokens(), memory=memory)


@every_family_with_spans
def test_spans_are_logged_clamped_and_charged_for(arch):
    model = make(arch, {**ADAPTIVE_SPAN, "span_loss": 0.5, "log_learned": True})
    ratios = [span.span_ratio for span in model.adaptive_spans()]
    ratios[0].data = torch.tensor([-0.5, 0.5]).double()
    ratios[1].data = torch.tensor([0.25, 1.5]).double()
    assert model.span_loss().item() == pytest.approx(0.5 * 9 * (0 + 0.875))
    model.after_update({})
    assert [ratio.tolist() for ratio in ratios] == [[0, 0.5], [0.25, 1]]
    heads = {"span_0_0": 0, "span_0_1": 4.5, "span_1_0": 2.25, "span_1_1": 9}
    learned = {name: value for name, value in model.learned().items() if name.startswith("span")}
    assert learned == {"span_mean": 15.75 / 4, "span_max": 9, **heads}


@every_family_with_spans
def test_a_fixed_span_costs_nothing_and_logs_nothing(arch):
    model = make(arch)
    assert model.span_loss() is None and model.learned() == {}
    model.after_update({})


def test_a_shared_table_is_smaller_at_the_start():
    shared = make("span_transformer_lm_tiny", {"share_decoder_input_output_embed": True})
    assert shared.decoder.output.weight is shared.decoder.embed.weight
    assert shared.decoder.embed.weight.std().item() == pytest.approx(64**-0.5, rel=0.1)


COUNTS = [  # architecture, vocabulary, millions of parameters
    ("all_attention_lm_enwik8_small", 205, 38.5),  # the paper: 39
    ("all_attention_lm_enwik8_large", 205, 114),
    ("all_attention_lm_text8_small", 28, 38),
    ("all_attention_lm_text8_large", 28, 114),
    ("all_attention_lm_wikitext103", 267735, 133),
    ("all_attention_lm_ff_attn", 28, 101),  # the paper: the same as text8_large
    ("span_transformer_lm_enwik8_small", 205, 38.5),  # Sukhbaatar et al.: 39
    ("span_transformer_lm_enwik8_large", 205, 209),
    ("span_transformer_lm_text8_large", 28, 116),
    ("span_transformer_lm_wikitext103_22", 267735, 134.7),  # the paper: roughly the same as all-attention's 133
    ("span_transformer_lm_wikitext103_36", 267735, 132.6),
    ("span_transformer_lm_twin_char_ptb", 50, 10.7),
    ("span_transformer_lm_twin_enwik8", 205, 77),
    ("span_transformer_lm_twin_wikitext103_small", 267735, 44),
    ("span_transformer_lm_twin_wikitext103_large", 267735, 140),
    ("span_transformer_lm_twin_toy", 26, 3.2),
    ("feedback_lm_char_ptb", 50, 10.7),  # Table 9
    ("feedback_lm_enwik8", 205, 77),
    ("feedback_lm_wikitext103_small", 267735, 44),
    ("feedback_lm_wikitext103_large", 267735, 126),  # Table 3; with keys and values per layer Table 9's 139
    ("feedback_lm_toy", 26, 3.2),
    ("transformer_xl_lm_enwik8", 204, 41),
    ("transformer_xl_lm_wikitext103", 267735, 151),
    ("skip_cross_head_xl_enwik8", 204, 41),
    ("skip_cross_head_xl_wikitext103", 267735, 122),
    ("skip_cross_head_xl_ablation", 267735, 65.2),  # not printed
]


@pytest.mark.parametrize("arch, vocabulary, millions", COUNTS)
def test_published_sizes_have_the_published_numbers_of_parameters(arch, vocabulary, millions):
    with torch.device("meta"):
        model = build(arch, vocabulary=vocabulary)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == pytest.approx(millions * 1e6, rel=0.01)


SPAN, ALL_ATTENTION, FEEDBACK = "span_transformer_lm_tiny", "all_attention_lm_tiny", "feedback_lm_tiny"
LSTM, XL, LINES = "lstm_stream_lm_tiny", "transformer_xl_lm_tiny", "active_memory_lm_tiny"


@pytest.mark.parametrize("arch, options, words", [
    (ALL_ATTENTION, {"decoder_attention_heads": 3}, "--decoder-embed-dim 64 is not divisible by .* 3.*66"),
    (ALL_ATTENTION, {"attention_span": 0}, "--attention-span 0 does not fit; give a whole number"),
    (ALL_ATTENTION, {"decoder_layers": 0}, "--decoder-layers 0 does not fit"),
    (ALL_ATTENTION, {"persistent_integration": "head-split", "decoder_attention_heads": 1},
        "head-split needs an even number of heads; choose --decoder-attention-heads 2"),
    (SPAN, {"adaptive_input": True}, "--adaptive-input and --adaptive-input-cutoff go together"),
    (SPAN, {**ADAPTIVE_IO, "adaptive_softmax_cutoff": "8"}, "--tie-adaptive-weights needs"),
    (SPAN, {"adaptive_softmax_factor": 0.5}, "--adaptive-softmax-factor 0.5 does not fit"),
    (SPAN, {"tie_adaptive_proj": True}, "--tie-adaptive-proj needs --tie-adaptive-weights"),
    (SPAN, {"adaptive_softmax_cutoff": "8,x"}, "'8,x' is not a list of cut-offs"),
    (SPAN, {"adaptive_softmax_cutoff": "8,99"}, "do not rise .* below the vocabulary's 24"),
    (SPAN, {"adaptive_softmax_cutoff": "8", "share_decoder_input_output_embed": True},
        "--share-decoder-input-output-embed is for models without --adaptive-input"),
    (FEEDBACK, {"feedback_memory": "layer-3"}, "memory layer-3 does not exist"),
    (FEEDBACK, {"feedback_memory": "best"}, "memory 'best' is not known"),
    (FEEDBACK, {"normalise_memory_twice": True, "decoder_normalize_before": False},
        "--normalise-memory-twice needs --decoder-normalize-before"),
    (FEEDBACK, {"feedback_chunk": 0}, "--feedback-chunk 0 does not fit; give a whole number of at least 1"),
    (FEEDBACK, {"feedback_chunk": 2, "feedback_passes": 3}, "--feedback-passes 3 is more than --feedback-chunk 2"),
    (FEEDBACK, {"feedback_passes": 2}, "--feedback-passes needs a --feedback-chunk of 2 or more"),
    (FEEDBACK, {"feedback_chunk": 2, "adaptive_span": True}, "--feedback-chunk does not train adaptive spans"),
    (LSTM, {"decoder_head_dim": 16}, "--decoder-head-dim has no meaning for an LSTM"),
    (LSTM, {"decoder_normalize_before": True}, "--decoder-normalize-before has no meaning for an LSTM"),
    (XL, {"mem_len": 0, "same_length": True}, "--same-length needs a memory; choose --mem-len 1 or more"),
    (XL, {"skip_p": 0.3}, "--skip-p 0.3 would have no effect: give --skip-schedule uniform, not-first"),
    (XL, {"skip_p": 0.3, "skip_schedule": "linear"}, "--skip-p 0.3 would have no effect"),
    (XL, {"skipped_layers": "moved"}, "--skipped-layers moved would have no effect: give --skip-schedule"),
    (XL, {"decoder_input_dim": 0}, "--decoder-input-dim 0 does not fit"),
    (XL, {"no_scale_embedding": True, "decoder_input_dim": 8}, "--no-scale-embedding is for plain embeddings"),
    (XL, {"untie_head_proj": True}, "--untie-head-proj needs --tie-adaptive-proj, or --share-decoder-input"),
    (XL, {"normalised_residual": True}, "--normalised-residual needs --decoder-normalize-before"),
    (XL, {"factorized_embedding": 8}, "--factorized-embedding has tables of its own"),
    (XL, {"decoder_embed_dim": 63, "decoder_attention_heads": 3}, "width 63 is odd"),
    (LINES, {"kernel_size": 0}, "--kernel-size 0 does not fit; give a whole number of at least 1"),
    (LINES, {"decoder_embed_dim": 63}, "width 63 is odd"),
    (LINES, {"decoder_embed_dim": 63, "decoder_head_dim": None}, "--decoder-embed-dim 63 is not divisible by"),
])  # fmt: skip
def test_options_that_do_not_fit_are_refused(arch, options, words):
    with pytest.raises(UserError, match=words):
        build(arch, options)


@pytest.mark.parametrize("options, chunks, words", [
    ({}, None, ""),
    ({"feedback_chunk": 8}, (8, 3), "in chunks of 8 tokens, passes over each: 3, an approximation"),
    ({"feedback_chunk": 2}, (2, 1), "in chunks of 2 tokens, passes over each: 1, an approximation"),
    ({"feedback_chunk": 4, "feedback_passes": 4}, (4, 4), "in chunks of 4 tokens, passes over each: 4, exactly"),
    ({"feedback_chunk": 99, "feedback_passes": 8}, (99, 8), "in chunks of 8 tokens, passes over each: 8, exactly"),
])  # fmt: skip
def test_feedback_trains_in_chunks_on_demand(options, chunks, words):
    model = build(FEEDBACK, options)
    found = model.decoder.body.stack.chunks
    assert (found and (found.tokens, found.passes), model.training_settings(block=8)) == (chunks, words)


def test_overrides_of_another_kind_are_refused():
    """Unlike flags they come into the configuration as they are."""
    task, given = SimpleNamespace(keeps_memory=True), OmegaConf.create({"_name": XL, "mem_len": 6.5})
    with pytest.raises(UserError, match="--mem-len 6.5 does not fit; give a whole number"):
        ARCH_MODEL_REGISTRY[XL].build_model(given, task)


def test_an_lstms_width_need_not_be_shared_by_heads():
    build(LSTM, {"decoder_embed_dim": 30, "decoder_attention_heads": 4})


def test_the_weights_of_a_feedback_memory_are_logged_on_demand():
    def learned(**options):
        return build(FEEDBACK, options).learned()

    assert learned() == {}
    assert learned(log_learned=True) == pytest.approx({f"memory_{layer}": 1 / 3 for layer in range(3)})
    assert learned(log_learned=True, feedback_memory="top") == {}


@every_family
def test_a_task_without_memory_is_refused(arch):
    with pytest.raises(UserError, match="needs --task streaming_language_modeling"):
        build(arch, keeps_memory=False)
