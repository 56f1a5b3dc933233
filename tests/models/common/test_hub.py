"""Models in a program: from_pretrained with the folder of the checkpoints, then raw text."""

import re
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.active_memory_lm import ActiveMemoryLanguageModel
from fairseq_plugins.models.all_attention_lm import AllAttentionLanguageModel
from fairseq_plugins.models.feedback_lm import FeedbackLanguageModel
from fairseq_plugins.models.feedback_transformer import FeedbackTransformerModel
from fairseq_plugins.models.span_transformer_lm import SpanTransformerLanguageModel
from fairseq_plugins.models.transformer_xl_lm import TransformerXLLanguageModel
from fairseq_plugins.text.levels import Characters, Words
from fairseq_plugins.text.lines import MAX_LEN_A
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain
from fairseq_plugins.tools.lib.load import load

KEPT = Path(__file__).parents[1] / "checkpoints"
STREAMS = {
    "feedback_lm_tiny": FeedbackLanguageModel,
    "all_attention_lm_tiny": AllAttentionLanguageModel,
    "span_transformer_lm_tiny": SpanTransformerLanguageModel,
    "transformer_xl_lm_tiny": TransformerXLLanguageModel,
}
MODELS = {**STREAMS, "active_memory_lm_tiny": ActiveMemoryLanguageModel}
SPACE = "h"  # the dictionary has the letters from a to h only
TEXT = "bad cafe\nface a\n\nedge" * 8 + "\n"


def fill(folder: Path, arch: str, checkpoint: str = "checkpoint_best.pt") -> Path:
    """The folder of a training of letters, with everything in it."""
    shutil.copy(KEPT / f"{arch}.pt", folder / checkpoint)
    shutil.copy(KEPT / "dict.txt", folder)
    PreparedText(Plain(lower=True), Plain(lower=True), Characters(space=SPACE)).save(folder)
    return folder


@pytest.fixture
def folder(tmp_path):
    return partial(fill, tmp_path)


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return FeedbackLanguageModel.from_pretrained(fill(tmp_path_factory.mktemp("lm"), "feedback_lm_tiny"))


@pytest.mark.parametrize("arch", ["feedback_lm_tiny", "transformer_xl_lm_tiny"])
def test_a_text_has_the_score_of_eval_lm(arch, folder, run, user_dir, tmp_path):
    lm = MODELS[arch].from_pretrained(folder(arch))
    scored = lm.score(TEXT)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/text").write_text("".join(lm.apply_bpe(line) + "\n" for line in TEXT.splitlines()))
    run(
        "fairseq-preprocess", "--only-source", "--testpref", tmp_path / "raw/text", "--srcdict", tmp_path / "dict.txt",
        "--destdir", tmp_path / "bin",
    )  # fmt: skip
    said = run(
        "fairseq-eval-lm", tmp_path / "bin", "--user-dir", user_dir, "--task", "streaming_language_modeling", "--path",
        tmp_path / "checkpoint_best.pt", "--gen-subset", "test", "--batch-size", 1, "--cpu",
        "--tokens-per-sample", lm.task.args.tokens_per_sample,
    ).stderr  # fmt: skip
    assert re.search(r"^\d{4}-.* \| INFO \| fairseq_cli.eval_lm \| Evaluated", said, re.MULTILINE)  # the time, too
    tokens, nats = re.search(r"with end-of-line: (\d+) tokens, ([\d.]+) nats", said).groups()
    assert len(scored["tokens"]) == int(tokens) == len(TEXT)
    assert -scored["positional_scores"].sum().item() == pytest.approx(float(nats), rel=1e-5)
    assert scored["score"].item() == pytest.approx(-float(nats) / len(TEXT), rel=1e-5)


def test_a_model_without_ends_of_lines_reads_none(folder, caplog, tmp_path):
    lm = FeedbackLanguageModel.from_pretrained(folder("feedback_lm_tiny"), no_end_of_line=True)
    checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "checkpoint_best.pt")], task=lm.task)
    assert "checkpoint_best.pt knows ends of lines: leave out --no-end-of-line" in caplog.text
    scored, joined = lm.score(TEXT), lm.score(TEXT.replace("\n", ""))
    assert "\n" in TEXT and not scored["tokens"].eq(lm.src_dict.eos()).any()
    assert scored["positional_scores"].equal(joined["positional_scores"])
    assert lm.sample("bad\ncab", length=3, seed=1) == lm.sample("badcab", length=3, seed=1)


@torch.no_grad()
def test_a_first_token_that_is_no_target_has_no_score(folder):
    lm = FeedbackLanguageModel.from_pretrained(folder("feedback_lm_tiny"))
    lm.task.args.no_first_target = True
    tokens = lm.encode("bad cab")[None, :-1]
    scored, other = lm.score(["bad cab", "a b"])
    expected = lm.models[0].token_nll(lm.models[0](tokens[:, :-1]), tokens[:, 1:])[0]
    assert scored["tokens"].equal(tokens[0, 1:]) and torch.allclose(scored["positional_scores"], -expected, atol=1e-5)
    assert len(other["positional_scores"]) == 2
    with pytest.raises(UserError, match="one token, which is read only, has no score"):
        lm.score("a")


@pytest.mark.parametrize("arch", MODELS)
def test_several_texts_score_as_each_for_itself(arch, folder):
    lm = MODELS[arch].from_pretrained(folder(arch))
    texts = [TEXT, "a", "cafe\n", "bad\ncab"]
    for text, both in zip(texts, lm.score(texts), strict=True):
        alone = lm.score(text)
        assert torch.allclose(both["positional_scores"], alone["positional_scores"], atol=1e-5)
        assert lm.decode(both["tokens"]) == text and len(alone["positional_scores"]) == len(text)


@pytest.mark.parametrize("arch", MODELS)
def test_a_sample_goes_on_from_raw_text(arch, folder):
    lm = MODELS[arch].from_pretrained(folder(arch))
    one = lm.sample("Bad c", length=30, temperature=2.0, top_k=5, seed=3)
    assert one.startswith("bad c") and one == lm.sample("Bad c", length=30, temperature=2.0, top_k=5, seed=3)
    assert len({lm.sample("bad", length=30, temperature=2.0, seed=seed) for seed in range(3)}) > 1
    if arch in STREAMS:
        assert len(one.replace("<unk>", "?")) == 35
        assert [text[:6] for text in lm.sample(["a\nb\nc\n", "face a"], length=3)] == ["a\nb\nc\n", "face a"]


def test_a_seed_leaves_other_random_numbers_alone(lm):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    lm.sample("a", length=4, seed=1)
    assert torch.equal(torch.rand(3), expected)


def test_fairseqs_options_search_to_the_end_of_the_line(lm):
    found = lm.sample("bad", beam=2, max_len_b=9)
    assert found.startswith("bad") and "\n" not in found


def test_a_prompt_is_not_cut_in_a_search(lm):
    """Of as many letters as max_len_b allows for the rest of the line, and of more than it does by default."""
    for text, options in (("badcafe" * 2, {"max_len_b": 12}), ("badcafe" * 30, {}), ("bad", {"max_len_b": 1})):
        found = lm.sample(text, beam=3, **options)
        assert found.startswith(text) and "\n" not in found and len(found) <= len(text) + 6 * 200


def test_the_best_hypotheses_are_given(lm):
    three, other = lm.sample(["bad", "cafe"], beam=3, nbest=3)
    assert len(set(three)) == len(set(other)) == 3
    assert three[0] == lm.sample("bad", beam=3) and all(text.startswith("bad") for text in three)
    assert lm.sample("bad", beam=3, nbest=2) == three[:2]
    assert list(map(len, lm.generate([lm.encode("bad")], beam=3, nbest=2))) == [2]
    assert len(lm.generate(lm.encode("bad"), beam=3)) == 3


def test_samplings_own_arguments_reach_fairseqs_search(lm):
    draws = [lm.sample("bad", temperature=5.0, seed=seed, sampling=True) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    likeliest = lm.sample("bad", beam=1)
    assert (
        lm.sample("bad", top_k=1, sampling=True, seed=3)
        == lm.sample("bad", temperature=1e-9, sampling=True)
        == likeliest
    )


def test_several_checkpoints_are_an_ensemble(folder):
    here = folder("feedback_lm_tiny")
    shutil.copy(here / "checkpoint_best.pt", here / "checkpoint_last.pt")
    both = FeedbackLanguageModel.from_pretrained(here, "checkpoint_best.pt:checkpoint_last.pt")
    one = FeedbackLanguageModel.from_pretrained(here)
    assert torch.allclose(both.score(TEXT)["positional_scores"], one.score(TEXT)["positional_scores"], atol=1e-5)


def test_the_last_checkpoint_is_taken_if_there_is_no_best_one(folder):
    here = folder("feedback_lm_tiny", "checkpoint_last.pt")
    whole = FeedbackLanguageModel.from_pretrained(here).score("bad")["positional_scores"]
    named = FeedbackLanguageModel.from_pretrained(here / "checkpoint_last.pt").score("bad")["positional_scores"]
    assert torch.equal(whole, named)


def test_without_prepared_text_symbols_are_those_of_the_dictionary(tmp_path):
    shutil.copy(KEPT / "feedback_lm_tiny.pt", tmp_path)
    lm = FeedbackLanguageModel.from_pretrained(str(tmp_path), "feedback_lm_tiny.pt", str(KEPT))
    assert len(lm.score("b a d")["positional_scores"]) == 3
    assert lm.sample("b a d", length=2).startswith("b a d ")


def test_a_translation_needs_its_folder_only(run, tmp_path, user_dir):
    """The folder that fairseq-train filled, and the data folder gone."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for side, lines in (("en", "Red boats.\nA boat!\n" * 8), ("xx", "Stob der.\nStob!\n" * 8)):
        symbols = [PreparedText(Plain(), Plain(), Words()).encode(line) for line in lines.splitlines()]
        (raw / f"train.{side}").write_text("\n".join(symbols) + "\n")
    data, model = tmp_path / "bin", tmp_path / "model"
    run("fairseq-preprocess", "-s", "en", "-t", "xx", "--trainpref", raw / "train", "--validpref", raw / "train",
        "--destdir", data)  # fmt: skip
    PreparedText(Plain(), Plain(), Words(), "en", "xx").save(data)
    run("fairseq-train", data, "--user-dir", user_dir, "--arch", "feedback_transformer_tiny", "--optimizer", "adam",
        "--max-tokens", 100, "--max-update", 2, "--save-dir", model, "--cpu")  # fmt: skip
    shutil.rmtree(data)
    for call, words in (
        (lambda: FeedbackTransformerModel.from_pretrained(model, foo=3), "from_pretrained: .* has no option foo"),
        (lambda: load(model / "checkpoint_last.pt", {"data": str(model), "foo": 3}), "has no option foo"),
    ):
        with pytest.raises(UserError, match=words):  # the model has add_args, so fairseq gives it every option
            call()
    assert FeedbackTransformerModel.from_pretrained(model, dropout=0.5).cfg.model.dropout == 0.5
    translator = FeedbackTransformerModel.from_pretrained(model)
    assert translator.cfg.generation.max_len_a == MAX_LEN_A  # as tools.translate
    short = FeedbackTransformerModel.from_pretrained(model, generation_args={"max_len_a": 0.5})
    assert short.cfg.generation.max_len_a == 0.5
    one, two = translator.translate(["Red boats.", "A boat!"])
    assert set(f"{one} {two}".split()) <= {"Stob", "der.", "Stob!"} and one == translator.translate("Red boats.")
    assert translator.translate("") == translator.translate(" \t") == ""
    assert translator.translate(["", "Red boats.", ""]) == ["", one, ""]
    assert translator.translate(["\ufeffRed boats.", "\ufeff"]) == [one, ""]  # a byte order mark is no text
    assert translator.encode("\ufeffRed  boats.").equal(translator.encode("Red boats."))
    (only,) = translator.generate([translator.encode("")])[0]
    assert only["tokens"].tolist() == [translator.tgt_dict.eos()] and only["score"] == 0
    quarter = "Red boats. A boat! " * 150  # the model takes 1024 words, and a batch of its training had 100
    parts = [translator.translate(quarter, beam=1, max_len_b=4)] * 4
    assert parts[0] and translator.translate(quarter * 4, beam=1, max_len_b=4) == " ".join(parts)
    for wrong in (["A boat!", 3], 3):
        with pytest.raises(UserError, match="a text is a string, not a int"):
            translator.translate(wrong)
    for both in (
        translator.translate(["Red boats.", ""], nbest=2),
        [translator.translate("Red boats.", nbest=2), [""] * 2],
    ):
        assert len(both[0]) == 2 and both[0][0] == one and both[1] == ["", ""]
    (best, *_) = translator.generate([translator.encode("Red boats.")], beam=2, print_alignment="hard")[0]
    assert len(best["alignment"]) == len(best["tokens"]) - 1  # the model was loaded without attention
    with pytest.raises(UserError, match="score is for language models, .*: take generate"):
        translator.score("Red boats.")


@pytest.mark.parametrize("options, words", [
    ({"checkpoint_file": "best.pt"}, "best.pt does not exist; there is checkpoint_best.pt"),
    ({"checkpoint_file": ["checkpoint_best.pt"]},
        "checkpoint_file .'checkpoint_best.pt'. does not fit; give a name, or several with : between them"),
    ({"data_name_or_path": "/none"}, "the data folder /none does not exist"),
    ({"data_name_or_path": 3}, "data_name_or_path 3 does not fit; give the folder"),
    ({"dropuot": 0.1}, "from_pretrained: the checkpoint has no option dropuot; write options as"),
    ({"generation_args": {"dropout": 1, "beam": 2}},
        "generation_args: fairseq has no option of generation dropout; write options as"),
    ({"generation_args": 3}, "generation_args 3 does not fit; give a dictionary"),
])  # fmt: skip
def test_a_wrong_argument_of_from_pretrained_is_told(options, words, folder):
    with pytest.raises(UserError, match=words):
        FeedbackLanguageModel.from_pretrained(folder("feedback_lm_tiny"), **options)


def test_a_wrong_folder_or_class_is_told(folder):
    here = folder("feedback_lm_tiny")
    with pytest.raises(UserError, match="none does not exist: give the folder"):
        FeedbackLanguageModel.from_pretrained(here / "none")
    with pytest.raises(UserError, match="holds a FeedbackLanguageModel: call .*fairseq_plugins.models.feedback_lm"):
        TransformerXLLanguageModel.from_pretrained(here)


@pytest.mark.parametrize("method, text, options, words", [
    ("score", ["a", 3], {}, "a text is a string, not a int"),
    ("translate", 3, {}, "a text is a string, not a int"),
    ("score", None, {}, "a string, not a NoneType"),
    ("score", ["a", ""], {}, "an empty text has no score"),
    ("sample", "a", {"temperature": 0}, "temperature 0 does not fit; give a number above 0"),
    ("sample", "a", {"beem": 3}, "beem: did you mean beam"),
    ("sample", "a", {"x": 3}, "no argument x: there are beam"),
    ("sample", "a", {"length": 5, "beam": 3}, "length has no effect .*: give max_len_b"),
    ("sample", "a\nb", {"beam": 3}, "the text has several; give its last line, or leave out beam"),
    ("sample", "a", {"top_k": 3, "beam": 2}, "^sampling_topk 3 needs sampling; add it"),
    ("sample", "a", {"top_k": 3, "top_p": 0.5}, "top_k and top_p exclude each other"),
    ("sample", "a", {"sampling": True, "sampling_topk": 100}, "^sampling_topk 100 is larger than the dictionary"),
    ("translate", "a", {"print_alignment": [1]}, 'print_alignment .1. does not fit; give "hard"'),
])  # fmt: skip
def test_a_wrong_call_is_told_in_a_sentence(method, text, options, words, lm):
    with pytest.raises(UserError, match=words) as told:
        getattr(lm, method)(text, **options)
    assert "\n" not in str(told.value)


def test_a_folder_without_a_dictionary_is_told(folder):
    here = folder("feedback_lm_tiny")
    (here / "dict.txt").unlink()
    with pytest.raises(UserError, match=f"neither {here} nor the data folder of the training, .*, has a dictionary"):
        FeedbackLanguageModel.from_pretrained(here)


def test_a_folder_without_a_checkpoint_is_told(tmp_path):
    with pytest.raises(UserError, match="has none of checkpoint_best.pt, checkpoint_last.pt and model"):
        FeedbackLanguageModel.from_pretrained(tmp_path)


def test_a_model_of_single_lines_samples_one(folder):
    lm = ActiveMemoryLanguageModel.from_pretrained(folder("active_memory_lm_tiny"))
    with pytest.raises(UserError, match="the prompt has several lines"):
        lm.sample("a\nb")


# Arguments of fairseq's search with a wrong value, or without effect from Python, and the errors
ARGUMENTS = {
    "beam": (0, "beam 0 does not fit; give a whole number of at least 1"),
    "nbest": (3, "^nbest 3 is more than beam 2 finds"),
    "min_len": (201, "^max_len_b 200 is below min_len 201"),
    "lenpen": ("1", "lenpen 1 does not fit; give a finite number"),
    "temperature": (0, "temperature 0 does not fit; give a number above 0"),
    "sampling_topp": (1.5, "sampling_topp 1.5 does not fit; give a number from 0 to 1, or -1"),
    "diverse_beam_groups": (3, "^diverse_beam_groups 3 does not divide beam 2"),
    "no_repeat_ngram_size": (-1, "no_repeat_ngram_size -1 does not fit"),
    "sampling": (1, "sampling 1 does not fit; give True or False"),
    "print_alignment": ("all", 'print_alignment all does not fit; give "hard" or "soft"'),
    "replace_unk": (True, "replace_unk has no effect from Python: .*; leave it out"),
    "constraints": ("ordered", "constraints has no effect from Python: fairseq-interactive --constraints takes them"),
    "prefix_size": (2, "prefix_size has no effect from Python: fairseq-generate --prefix-size"),
    "lm_path": ("lm.pt", "lm_path has no effect from Python"),
    "retain_dropout": (True, "retain_dropout has no effect from Python: .* give it to from_pretrained"),
    "beam_mt": (3, "beam_mt has no effect from Python: leave it out"),
    "print_step": (True, "print_step has no effect from Python: leave it out"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_that_would_have_no_effect_is_told(name, lm):
    value, words = ARGUMENTS[name]
    for call in (lm.sample, lm.translate, lambda text, **options: lm.generate([lm.encode(text)], **options)):
        with pytest.raises(UserError, match=words):
            call("a", **{"beam": 2, name: value})


NUMBERS = {
    "max_len_b": 1, "min_len": 9, "lenpen": -3.0, "unkpen": -99.0, "no_repeat_ngram_size": 1,
    "diverse_beam_groups": 2, "diversity_rate": 9.0, "unnormalized": True, "temperature": 9.0, "sampling": True,
    "match_source_len": True,
}  # fmt: skip


def test_every_other_argument_changes_what_is_found(lm):

    def scores(**options):
        found = lm.generate([lm.encode("bad")], beam=2, **{"max_len_b": 10, **options})[0]
        return [(each["tokens"].tolist(), each["score"].item()) for each in found]

    assert [name for name, value in NUMBERS.items() if scores(**{name: value}) == scores()] == []
    assert scores(max_len_b=1, max_len_a=1.0) != scores(max_len_b=1)
