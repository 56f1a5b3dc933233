"""Pieces of SentencePiece bring back every line of every language, but for runs of white space."""

import gzip
from pathlib import Path

import pytest
from lib import subwords

from fairseq_plugins.text.levels import SentencePieces
from fairseq_plugins.text.lines import squeeze

REAL = Path(__file__).resolve().parents[3] / "shared/data/languages"
HARD = [
    "l’eau d'été 'tis rock 'n' roll’ ‘said’ ʼn ʻokina комп'ютер комп’ютер Ankara'da ta' Malta d'fhág o‘zbek EU:n",
    '“parts” „Teile“ «mots» « mots » »Wörter« ‹x› 「日本」『語』 ”svenska” ’engelska’ "plain" ‚s‘',
    "and/or AT&T http://a.b/c?d=e&f#g user@host.org 5'10\" tall 3.14 1,000 1 000 −5 50% 5 €",
    "oui\u00a0! non\u202f? « peut-être\u202f: »\u2009thin\u3000全角\u2060 \u200bzero\u200d \ufeffmark",
    "@@ a@@ b ▁ ▁▁x x▁ <unk> <s> </s> <pad> madeupword0001 <U+2581> <U+003C> <U+00E9> <0x41> &amp; &apos; | [ ]",
    "\u200eשלום\u200f \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 กขค नमस्ते ＡＢＣ ﬁ Ⅻ e\u0301 é 𝔘 㐀 ▅",
]


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """Learned from ordinary lines, so that the hard ones have characters that are new to the model."""
    model = tmp_path_factory.mktemp("pieces") / "sentencepiece.model"
    lines = ["the house’s garden, and so on: 1, 2, 3.", "la maison, « le jardin » ; un, deux.", "дом і сад."] * 50
    subwords.learn_sentence_pieces(lines, model, 400, "lines")
    return SentencePieces(model)


@pytest.mark.parametrize("line", HARD)
def test_hard_lines_come_back(line, pieces):
    assert pieces.decode(pieces.encode(squeeze(line))) == line
    assert not set(pieces.encode(line).split()) - set(pieces.symbols())


@pytest.mark.skipif(not REAL.is_dir(), reason="needs text in many languages")
def test_real_text_comes_back(pieces):
    files = sorted(REAL.glob("*.txt.gz"))
    lines = [squeeze(line) for file in files for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
    assert len(lines) > 3000 and [pieces.decode(pieces.encode(line)) for line in lines] == lines


def test_frequent_words_are_pieces(tmp_path):
    """As they are not in SentencePiece's unigram models (findings/)."""
    words = ["".join(pair) for pair in zip("bcdfghjklm" * 9, "aeiou" * 18)]
    lines = [f"{one}{two} and {two}{one}" for one in words[:30] for two in words[30:60]]
    subwords.learn_sentence_pieces(lines, tmp_path / "model", 400, "lines")
    assert SentencePieces(tmp_path / "model").encode("and") == "▁and"
