import unicodedata

import pytest
from sacremoses import MosesTokenizer
from sentences import sentences

from fairseq_plugins.text.tokenisers import Moses, MosesBeginning, MosesSentences, Plain, PlainBeginning


@pytest.mark.parametrize("line", ["It's Tom's well-known “café”, isn't it?", "Er sagte: „Nein, 3,5 % & <b> | [x]“."])
def test_moses_brings_back_the_line(line):
    moses = Moses("en")
    assert moses.detokenise(moses.tokenise(line)).replace(" ", "") == line.replace(" ", "")


@pytest.mark.parametrize("language", ["en", "fi", "ar"])
def test_moses_brings_back_the_marks_of_other_scripts(language):
    moses = Moses(language)
    for line in {*sentences(language, 50), "كيف حالك؟ لا أعرف؛ ربما."}:
        assert moses.detokenise(moses.tokenise(line)) == line


@pytest.mark.parametrize(
    "language, line",
    [
        ("fa", 'کتاب\u200cهای ما کجا هستند؟ "شعر"\u200cها ۵۰٪ شد.'),
        ("yo", "Ọjọ́ dára púpọ̀, rẹ̀ gan-an."),
        ("si", "ශ්\u200dරී ලංකාව ලස්සන රටකි."),
        ("hy", "Ո՞վ է նա, տես՝ Հայաստանը։"),
        ("am", "ሰላም፤ እንዴት ነህ፥ ደህና።"),
        ("en", "We 👨\u200d👩\u200d👧 are 👍🏽, ❤\ufe0f!"),
    ],
)
def test_moses_brings_back_joiners_and_combining_marks(language, line):
    moses = Moses(language)
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, line)
        assert moses.detokenise(moses.tokenise(text)) == text


@pytest.mark.parametrize(
    "language, line", [("en", "José's “naïve” café, déjà."), ("fr", "L'été est fini, n'est-ce pas?")]
)
def test_decomposed_text_has_the_tokens_of_composed_text(language, line):
    moses = Moses(language)
    decomposed = unicodedata.normalize("NFD", line)
    assert decomposed != line
    assert moses.tokenise(decomposed) == unicodedata.normalize("NFD", moses.tokenise(line))


@pytest.mark.parametrize("language", ["en", "fi", "ar", "zh"])
def test_other_text_has_the_tokens_of_sacremoses(language):
    plain = MosesTokenizer(language)
    for line in {*sentences(language, 50), "It's 5'2, l'été d'«or» 🙂 月 & <b>…"}:
        assert Moses(language).tokenise(line) == plain.tokenize(line, return_str=True)


def test_sentences_of_a_summary_are_apart_and_nothing_in_the_text_can_pose_as_separator():
    moses = MosesSentences("en")
    assert moses.tokenise("Rain fell. <q> He <q>left.") == "Rain fell . <q> He &lt; q &gt; left ."
    assert moses.detokenise("Rain fell . <q> It &apos;s wet .") == "Rain fell. <q> It's wet."


def test_articles_are_cut_at_words():
    assert MosesBeginning("en", words=5).tokenise("One, two, three, four.") == "One , two , three"
    assert PlainBeginning(words=3).tokenise("One, two, three, four.") == "One, two, three,"


def test_hyphens_and_lower_case():
    assert Moses("en", lower=True).tokenise("A well-known man.") == "a well-known man ."


def test_plain_keeps_the_line():
    assert Plain().tokenise("A  b.") == Plain().detokenise("A  b.") == "A  b."
    assert Plain(lower=True).tokenise("A  b.") == "a  b."
