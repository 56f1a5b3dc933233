from argparse import Namespace
from itertools import pairwise

import pytest
import sentencepiece
from lib import subwords
from sentences import sentences

from fairseq_plugins.errors import UserError
from fairseq_plugins.text.levels import SentencePieces


@pytest.fixture
def texts(tmp_path):
    for language in ("fi", "zh"):
        (tmp_path / language).write_text("".join(line + "\n" for line in sentences(language, 200)), encoding="utf-8")
    return [tmp_path / "fi", tmp_path / "zh"]


def chosen(unspaced=(), **options):
    defaults = {"bpe": None, "symbols": None, "model": None, "size": 8000, "pieces": False}
    return subwords.choose(Namespace(**defaults | options), list(unspaced))


def test_spaces_decide_unless_the_options_do(capsys):
    assert chosen() == subwords.BytePairEncoding(8000)
    assert chosen(pieces=True) == subwords.SentencePiece(8000)
    assert chosen(bpe=300) == chosen(bpe=300, pieces=True) == subwords.BytePairEncoding(300)
    assert chosen(bpe="sentencepiece") == chosen(symbols=8000) == subwords.SentencePiece(8000)
    assert capsys.readouterr().out == ""
    assert chosen(["zh"], symbols=500) == subwords.SentencePiece(500)
    assert "'zh' is written without spaces between words: taking --bpe sentencepiece" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"bpe": 300, "unspaced": ["th"]}, "--bpe 300 needs words, but 'th' is written without spaces"),
        ({"bpe": 300, "symbols": 300}, "--bpe 300 and --symbols 300 exclude each other"),
    ],
)
def test_options_that_contradict_each_other(options, sentence):
    with pytest.raises(UserError, match=sentence):
        chosen(**options)


def test_a_model_of_two_languages_brings_back_both(texts, tmp_path):
    subwords.SentencePiece(400).learn(texts, tmp_path / "a.model")
    level = SentencePieces(tmp_path / "a.model")
    for line in [*sentences("fi", 9), *sentences("zh", 9), "Ünbekannte 文字", "，，"]:
        assert level.decode(level.encode(line)) == line
    subwords.SentencePiece(400).learn(texts, tmp_path / "b.model")
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes()


def test_a_sample_of_a_large_text_is_the_same_one_each_time(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(subwords, "LINES", 150)
    for name in ("a.model", "b.model"):
        subwords.SentencePiece(400).learn(texts, tmp_path / name)
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes()


def test_a_small_text_gives_fewer_symbols_and_too_few_are_refused(texts, tmp_path):
    report = subwords.SentencePiece(8000).learn(texts, tmp_path / "model")
    assert "8000 symbols requested, " in report and "8000 symbols learned" not in report
    with pytest.raises(UserError, match="--symbols 20 is too small: the characters and bytes alone are 3.. symbols"):
        subwords.SentencePiece(20).learn(texts, tmp_path / "model")


def test_long_lines_are_learned_from(tmp_path):
    """SentencePiece leaves lines of more than 4,192 bytes out, unless it is told otherwise."""
    words = sentences("fi", 400)
    for name, text in (("long", " ".join(words)), ("both", " ".join(words) + "\n" + "kuu" * 20 + "\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        subwords.SentencePiece(400).learn([tmp_path / name], tmp_path / "model")
        assert "<0x" not in SentencePieces(tmp_path / "model").encode(words[0])  # a byte


@pytest.mark.parametrize("line", ["kuu ja meri ", "你好🙂", "a" * 99 + " b", "  two  spaces  "])
def test_lines_beyond_the_longest_are_cut_before_spaces_if_words_allow(line):
    assert subwords.parts(line) == [line]
    line *= 20_000
    cut = subwords.parts(line)
    assert "".join(cut) == line and len(cut) > 1
    for part, following in pairwise(cut):
        assert len(part.encode()) <= subwords.LONGEST and (following.startswith(" ") or " " not in part)


def test_lines_with_the_reserved_sign_are_learned_from(tmp_path):
    (tmp_path / "text").write_text("".join(f"{line} ▅▅ low\n" for line in sentences("fi", 200)), encoding="utf-8")
    subwords.SentencePiece(400).learn([tmp_path / "text"], tmp_path / "model")
    level = SentencePieces(tmp_path / "model")
    assert "<0x" not in level.encode(sentences("fi", 1)[0])  # a byte
    assert level.decode(level.encode("kuu ▅")) == "kuu ▅"


@pytest.mark.parametrize("text", ["\n\n", "▅▅\n", " \n▁\n"])
def test_a_text_of_nothing_is_named(text, tmp_path):
    (tmp_path / "train.fi").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"train\.fi: SentencePiece has nothing to learn from, .*: give more text"):
        subwords.SentencePiece(400).learn([tmp_path / "train.fi"], tmp_path / "model")


def test_any_other_fault_of_the_trainer_is_a_sentence(texts, tmp_path, monkeypatch):
    def fail(**options):
        raise RuntimeError("INTERNAL: src/unigram_model_trainer.cc(211) [std::isfinite(score)] ")

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", fail)
    with pytest.raises(
        UserError, match=r"fi, zh: SentencePiece cannot learn from this text \(INTERNAL.*\): give other"
    ):
        subwords.SentencePiece(400).learn(texts, tmp_path / "model")


def test_separators_are_never_split(texts, tmp_path):
    subwords.SentencePiece(400, ("<q>",)).learn(texts, tmp_path / "model")
    pieces = SentencePieces(tmp_path / "model").encode("tyttö näkee. <q> kuun")
    assert "<q>" in pieces.split()
