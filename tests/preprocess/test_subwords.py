from argparse import Namespace

import pytest
import subwords
from sentences import sentences
from steps import InputError

from fairseq_plugins.text.levels import SentencePieces


@pytest.fixture
def texts(tmp_path):
    for language in ("fi", "zh"):
        (tmp_path / language).write_text("".join(line + "\n" for line in sentences(language, 200)), encoding="utf-8")
    return [tmp_path / "fi", tmp_path / "zh"]


def chosen(unspaced=(), **options):
    return subwords.choose(Namespace(**{"bpe": None, "symbols": None, "size": 8000} | options), list(unspaced))


def test_spaces_decide_unless_the_options_do(capsys):
    assert chosen() == subwords.BytePairEncoding(8000)
    assert chosen(bpe=300) == subwords.BytePairEncoding(300)
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
    with pytest.raises(InputError, match=sentence):
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
    with pytest.raises(InputError, match="--symbols 20 is too small: the characters and bytes alone are 3.. symbols"):
        subwords.SentencePiece(20).learn(texts, tmp_path / "model")


def test_separators_are_never_split(texts, tmp_path):
    subwords.SentencePiece(400, ("<q>",)).learn(texts, tmp_path / "model")
    pieces = SentencePieces(tmp_path / "model").encode("tyttö näkee. <q> kuun")
    assert "<q>" in pieces.split()
