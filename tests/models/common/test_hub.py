"""Models in a program: from_pretrained with the folder of the checkpoints, then raw text."""

import re
import shutil
from pathlib import Path

import pytest
import torch

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.active_memory_lm import ActiveMemoryLanguageModel
from fairseq_plugins.models.all_attention_lm import AllAttentionLanguageModel
from fairseq_plugins.models.feedback_lm import FeedbackLanguageModel
from fairseq_plugins.models.feedback_transformer import FeedbackTransformerModel
from fairseq_plugins.models.span_transformer_lm import SpanTransformerLanguageModel
from fairseq_plugins.models.transformer_xl_lm import TransformerXLLanguageModel
from fairseq_plugins.text.levels import Characters, Words
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain

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


@pytest.fixture
def folder(tmp_path):
    """A function: the folder of a training of letters, with everything in it."""

    def make(arch: str, checkpoint: str = "checkpoint_best.pt") -> Path:
        shutil.copy(KEPT / f"{arch}.pt", tmp_path / checkpoint)
        shutil.copy(KEPT / "dict.txt", tmp_path)
        PreparedText(Plain(lower=True), Plain(lower=True), Characters(space=SPACE)).save(tmp_path)
        return tmp_path

    return make


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


def test_a_seed_leaves_other_random_numbers_alone(folder):
    lm = FeedbackLanguageModel.from_pretrained(folder("feedback_lm_tiny"))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    lm.sample("a", length=4, seed=1)
    assert torch.equal(torch.rand(3), expected)


def test_fairseqs_options_search_to_the_end_of_the_line(folder):
    lm = FeedbackLanguageModel.from_pretrained(folder("feedback_lm_tiny"))
    found = lm.sample("bad", beam=2, max_len_b=9)
    assert found.startswith("bad") and "\n" not in found


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
    translator = FeedbackTransformerModel.from_pretrained(model)
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
    with pytest.raises(UserError, match="a text is a string, not a int"):
        translator.translate(["A boat!", 3])


WRONG = {
    "none": (lambda here: FeedbackLanguageModel.from_pretrained(here / "none"), "none does not exist: give the folder"),
    "name": (
        lambda here: FeedbackLanguageModel.from_pretrained(here, "best.pt"),
        "best.pt does not exist; there is checkpoint_best.pt",
    ),
    "data": (
        lambda here: FeedbackLanguageModel.from_pretrained(here, data_name_or_path="/none"),
        "the data folder /none does not exist",
    ),
    "class": (
        lambda here: TransformerXLLanguageModel.from_pretrained(here),
        "holds a FeedbackLanguageModel: call from_pretrained of that class, .* fairseq_plugins.models.feedback_lm",
    ),
    "text": (lambda here: FeedbackLanguageModel.from_pretrained(here).score(["a", 3]), "a text is a string, not a int"),
    "empty": (lambda here: FeedbackLanguageModel.from_pretrained(here).score(["a", ""]), "an empty text has no score"),
    "number": (
        lambda here: FeedbackLanguageModel.from_pretrained(here).sample("a", temperature=0),
        "temperature 0 does not fit; give a number above 0",
    ),
    "two": (
        lambda here: FeedbackLanguageModel.from_pretrained(here).sample("a", top_k=3, top_p=0.5),
        "top_k and top_p exclude each other",
    ),
}


@pytest.mark.parametrize("call, words", WRONG.values(), ids=WRONG)
def test_a_wrong_call_is_told_in_a_sentence(call, words, folder):
    with pytest.raises(UserError, match=words) as told:
        call(folder("feedback_lm_tiny"))
    assert "\n" not in str(told.value)


def test_a_folder_without_a_dictionary_is_told(folder):
    here = folder("feedback_lm_tiny")
    (here / "dict.txt").unlink()
    with pytest.raises(UserError, match=f"neither {here} nor the data folder of the training, .*, has a dictionary"):
        FeedbackLanguageModel.from_pretrained(here)


def test_a_folder_without_a_checkpoint_is_told(tmp_path):
    with pytest.raises(UserError, match="has neither checkpoint_best.pt nor checkpoint_last.pt"):
        FeedbackLanguageModel.from_pretrained(tmp_path)


def test_a_model_of_single_lines_samples_one(folder):
    lm = ActiveMemoryLanguageModel.from_pretrained(folder("active_memory_lm_tiny"))
    with pytest.raises(UserError, match="the prompt has several lines"):
        lm.sample("a\nb")
