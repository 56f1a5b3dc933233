"""fairseq's search finds the same for a sentence in a batch as alone, with the patches of compat/generation.py."""

import inspect
import random
from argparse import Namespace
from dataclasses import fields
from functools import cache

import pytest
import torch
from fairseq import search
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer_lm import base_lm_architecture
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from language_models import build

from fairseq_plugins.errors import UserError

WORDS = Dictionary()
for number in range(20):
    WORDS.add_symbol(f"w{number}")
WORDS.pad_to_multiple_(24)
EOS, LONGEST = WORDS.eos(), 32  # tokens of a line
DRAW = random.Random(3)
LENGTHS = [0, 0, 1, 11, 15, *(DRAW.randint(0, 6) for _ in range(45))]
PROMPTS = [torch.tensor([*(DRAW.randrange(4, 24) for _ in range(length)), EOS]) for length in LENGTHS]


@cache
def task(name):
    kind, config = {
        "lm": (LanguageModelingTask, LanguageModelingConfig()),
        "translation": (TranslationTask, TranslationConfig()),
    }[name]
    settings = {field.name: getattr(config, field.name) for field in fields(config)}
    args = Namespace(**settings | {"max_source_positions": LONGEST, "max_target_positions": LONGEST})
    return kind(args, WORDS) if name == "lm" else kind(args, WORDS, WORDS)


@cache
def model(arch):
    """Untrained, but sure of itself, so that equal results are no accident; in float64."""
    if arch.endswith("lm_tiny"):
        made = build(arch)
    else:
        sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in SIZES.items()}
        lengths = {f"max_{side}_positions": LONGEST for side in ("source", "target")}
        args = Namespace(arch=arch, dropout=0.0, tokens_per_sample=LONGEST, **sides, **lengths)
        complete = base_lm_architecture if arch == "transformer_lm" else ARCH_CONFIG_REGISTRY[arch]
        complete(args)
        made = ARCH_MODEL_REGISTRY[arch].build_model(args, task("lm" if arch.endswith("lm") else "translation"))
    draws = torch.Generator().manual_seed(0)
    for parameter in made.parameters():
        if parameter.dim() > 1:
            parameter.data = torch.randn(parameter.shape, generator=draws) * 3 / parameter.size(-1) ** 0.5
    return made.double().eval()


SIZES = {"embed_dim": 16, "ffn_embed_dim": 16, "layers": 1, "attention_heads": 2}


def found(arch, batch=50, prompts=PROMPTS, prefix_size=0, **options):
    """The hypotheses of each prompt or source: tokens, score, and scores of the tokens."""
    models, which = [model(arch)], task("lm" if "lm" in arch else "translation")  # a new model draws random numbers
    torch.manual_seed(1)
    generator = which.build_generator(models, Namespace(**{"max_len_b": 5, "beam": 1, **options}))
    data = which.build_dataset_for_inference(prompts, list(map(len, prompts)))
    result = {}
    for part in which.get_batch_iterator(data, max_sentences=batch).next_epoch_itr(shuffle=False):
        numbers = part["id"].tolist()
        rows = [prompts[number][:prefix_size] for number in numbers]
        forced = torch.nn.utils.rnn.pad_sequence(rows, True, WORDS.pad()) if prefix_size else None
        result |= zip(numbers, which.inference_step(generator, models, part, prefix_tokens=forced))
    return [
        [(h["tokens"].tolist(), h["score"], h["positional_scores"]) for h in result[n]] for n in range(len(prompts))
    ]


def same(one, other) -> bool:
    words, others = ([[tokens for tokens, *_ in each] for each in some] for some in (one, other))
    pairs = [pair for a, b in zip(one, other) for x, y in zip(a, b) for pair in zip(x[1:], y[1:])]
    return words == others and all(torch.allclose(a, b, atol=1e-5) for a, b in pairs)


OPTIONS = {
    "min-len": {"min_len": 9, "max_len_b": 10, "beam": 3},
    "max-len-b": {"max_len_b": 7},
    "max-len-a": {"max_len_a": 0.5, "max_len_b": 2, "beam": 3},
    "no-repeat-ngram-size": {"no_repeat_ngram_size": 1, "beam": 3},
    "lenpen": {"lenpen": 0.3, "beam": 3},
    "prefix-size": {"prefix_size": 3, "min_len": 3, "max_len_b": 6, "beam": 3},
    "sampling": {"sampling": True},
    "sampling-topk": {"sampling": True, "sampling_topk": 3, "beam": 3},
    "sampling-topp": {"sampling": True, "sampling_topp": 0.7, "min_len": 4},
    "diverse-beam-groups": {"diverse_beam_groups": 2, "beam": 4},
    "match-source-len": {"match_source_len": True, "beam": 2},
}
TOGETHER = {
    "search": {"min_len": 9, "max_len_b": 10, "no_repeat_ngram_size": 2, "lenpen": 2.0, "beam": 3},
    "drawn": {"sampling": True, "sampling_topp": 0.8, "temperature": 1.5, "min_len": 5},
}
OURS = ["feedback_lm_tiny", "transformer_xl_lm_tiny", "span_transformer_lm_tiny", "feedback_transformer_tiny"]
CELLS = [(arch, name, options) for arch in ("transformer_lm", "transformer") for name, options in OPTIONS.items()]
CELLS += [(arch, name, options) for arch in OURS for name, options in TOGETHER.items()]


@pytest.mark.parametrize("arch, name, options", CELLS, ids=[f"{arch}-{name}" for arch, name, _ in CELLS])
def test_a_batch_finds_what_each_sentence_finds_alone(arch, name, options):
    alone = found(arch, batch=1, **options)
    assert same(found(arch, batch=4, **options), alone) and same(found(arch, batch=50, **options), alone)
    if "lm" in arch and "prefix_size" not in options and name != "match-source-len":
        limit = options.get("max_len_b", 5) + 1
        for prompt, ((tokens, *_), *_) in zip(PROMPTS, alone, strict=True):
            assert tokens[: len(prompt) - 1] == prompt[:-1].tolist() and tokens[-1] == EOS
            assert options.get("min_len", 1) < len(tokens) <= len(prompt) - 1 + limit + len(prompt) // 2


@pytest.mark.parametrize("owner, patched, options", [
    (SequenceGenerator, "_generate", OPTIONS["max-len-a"]),
    (SequenceGenerator, "_prefix_tokens", OPTIONS["min-len"]),
    (search.Sampling, "step", OPTIONS["sampling-topk"]),
])  # fmt: skip
def test_fairseqs_own_search_depends_on_the_batch(owner, patched, options, monkeypatch):
    monkeypatch.setattr(owner, patched, inspect.unwrap(getattr(owner, patched)))
    some = PROMPTS[:8]
    assert not same(found("transformer_lm", 8, some, **options), found("transformer_lm", 1, some, **options))


LONG = [torch.tensor([*range(4, 24), EOS])]


@pytest.mark.parametrize("arch", ["transformer_lm", "feedback_lm_tiny"])
def test_a_prompt_is_not_cut(arch, monkeypatch):
    (((tokens, *_), *_),) = found(arch, prompts=LONG, beam=3, max_len_b=6, min_len=24)
    assert tokens[:20] == LONG[0].tolist()[:20] and len(tokens) in range(25, 28)
    monkeypatch.setattr(SequenceGenerator, "_generate", inspect.unwrap(SequenceGenerator._generate))
    (((tokens, *_), *_),) = found(arch, prompts=LONG, beam=3, max_len_b=6)
    assert tokens == [*LONG[0].tolist()[:6], EOS]  # fairseq's result: a part of the prompt


def test_a_prompt_that_leaves_no_room_is_refused_also_beside_one_that_ends():
    def prompt(length):
        return torch.tensor([5] * length + [EOS])

    assert len(found("transformer_lm", prompts=[prompt(LONGEST - 2)])[0][0][0]) >= LONGEST - 1
    too_long = prompt(LONGEST - 1)
    with pytest.raises(UserError, match="has 31 tokens, but the model takes 31 in all, .* shorten it to 30, or less"):
        found("transformer_lm", prompts=[too_long])
    with pytest.raises(UserError, match="has 31 tokens, but the model takes 31 in all"):
        found("transformer_lm", prompts=[too_long, prompt(2)], prefix_size=LONGEST - 1)


@pytest.mark.parametrize("least, limits", [(8, {"max_len_a": 1.0, "max_len_b": 1}), (LONGEST - 1, {"max_len_b": 3})])
def test_a_short_source_reaches_the_least_length(least, limits):
    """Above the limit of its own length, and up to the longest that the model takes; a longer one is refused."""
    options = {"prompts": [torch.tensor([5, EOS]), torch.tensor([5] * 18 + [EOS])], "beam": 2, **limits}
    both = found("transformer", min_len=least, **options)
    assert same(both, found("transformer", batch=1, min_len=least, **options))
    for (tokens, *_), *_ in both:
        assert len(tokens) > least and tokens[-1] == EOS
    with pytest.raises(UserError, match="^--min-len 32 is above the 31 tokens .* lower it to 31, or less"):
        found("transformer", min_len=LONGEST, **options)


def test_a_target_that_is_forced_to_be_empty_is(monkeypatch):
    empty = [torch.tensor([EOS]), torch.tensor([5, EOS])]
    options = {"prompts": empty, "prefix_size": 2, "beam": 3}
    assert [hypotheses[0][0] for hypotheses in found("transformer_lm", **options)] == [[EOS], [5, EOS]]
    monkeypatch.setattr(SequenceGenerator, "_generate", inspect.unwrap(SequenceGenerator._generate))
    with pytest.raises(AssertionError):
        found("transformer_lm", **options)


def repeats(tokens, size) -> bool:
    grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(grams)) < len(grams)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_words_are_repeated(size, monkeypatch):
    options = {"prompts": [torch.tensor([5, 6, EOS])], "min_len": 15, "max_len_b": 14, "no_repeat_ngram_size": size}
    assert not repeats(found("transformer_lm", **options)[0][0][0], size)
    forced = [torch.tensor([5, 6, 5, 6, 5, 6, EOS])]  # fairseq would ban the prompt's own words, if it banned any
    assert found("transformer_lm", **options | {"prompts": forced})[0][0][0][:6] == [5, 6, 5, 6, 5, 6]
    monkeypatch.setattr(NGramRepeatBlock, "_no_repeat_ngram", NGramRepeatBlock._no_repeat_ngram.__wrapped__)
    assert repeats(found("transformer_lm", **options)[0][0][0], size)  # it has no effect


def test_words_are_repeated_where_there_are_no_others():
    options = {"prompts": LONG, "min_len": 24, "max_len_b": 6, "no_repeat_ngram_size": 1}
    assert len(found("transformer_lm", **options)[0][0][0]) > 24


def test_groups_of_beams_end_in_an_error_in_fairseq(monkeypatch):
    monkeypatch.setattr(search.DiverseBeamSearch, "step", search.DiverseBeamSearch.step.__wrapped__)
    with pytest.raises(IndexError):
        found("transformer_lm", batch=1, **OPTIONS["diverse-beam-groups"])


@pytest.mark.parametrize("temperature", [1e-300, 1e-40, 1e-3, 1e30])
def test_any_temperature_can_be_drawn_at(temperature, monkeypatch):
    """At a low one the likeliest words come, in an ensemble, too."""
    some, options = PROMPTS[:5], {"sampling": True, "temperature": temperature}
    drawn = [hypotheses[0][0] for hypotheses in found("transformer_lm", prompts=some, **options)]
    if temperature < 1:
        likeliest = [hypotheses[0][0] for hypotheses in found("transformer_lm", prompts=some)]
        assert drawn == likeliest
    if temperature < 1e-10:
        monkeypatch.setattr(EnsembleModel, "forward_decoder", EnsembleModel.forward_decoder.__wrapped__)
        with pytest.raises(Exception):  # noqa: B017  (of several kinds, as the words come)
            found("transformer_lm", prompts=some, **options)


def test_a_language_model_has_no_alignments():
    with pytest.raises(UserError, match="--print-alignment is for translations"):
        found("transformer_lm", prompts=LONG, print_alignment="hard")
    assert found("transformer", prompts=LONG, print_alignment="hard")


def test_the_same_prompt_is_drawn_for_anew():
    """Twice in the input, and again by the same generator, as a program may call it."""
    twice = found("transformer_lm", prompts=[PROMPTS[3]] * 2, sampling=True, temperature=3.0)
    assert twice[0][0][0] != twice[1][0][0]
    generator = task("lm").build_generator([model("transformer_lm")], Namespace(sampling=True, temperature=3.0))
    sample = {"net_input": {"src_tokens": torch.tensor([[EOS]]), "src_lengths": torch.tensor([1])}}
    texts = [generator.generate(None, sample, prefix_tokens=torch.tensor([[5]]))[0][0]["tokens"] for _ in range(2)]
    assert not torch.equal(*texts)
