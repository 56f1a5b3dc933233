"""--model: a SentencePiece model or byte pair codes of one's own."""

import pytest
import sentencepiece
from subword_nmt.learn_bpe import learn_bpe

from fairseq_plugins.text.prepared import PreparedText

LINES = [f"{number} {animal} sleeps." for number in range(30, 70) for animal in ("red cat", "old dog", "hen")]


@pytest.fixture
def text(tmp_path):
    for language, lines in (("en", LINES), ("de", [line.upper() for line in LINES])):
        (tmp_path / f"text.{language}").write_text("\n".join(lines) + "\n")
    flags = {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(
        input=[tmp_path / "text.en", tmp_path / "text.de"], model_prefix=str(tmp_path / "mine"), **flags
    )
    with open(tmp_path / "codes", "w") as codes:
        learn_bpe([*LINES, *map(str.upper, LINES)], codes, 60)
    return tmp_path


@pytest.mark.parametrize("model, kept", [("mine.model", "sentencepiece.model"), ("codes", "codes.bpe")])
def test_it_encodes_text_and_pairs(text, model, kept, script):
    done = script("text", "--raw", text / "text.en", "--model", text / model, "--out", text / "lm")
    assert "0 % of them unknown; 0 of " in done.stdout
    pairs = ("--raw", text / "text.en", text / "text.de", "--source", "en", "--target", "de")
    script("parallel", *pairs, "--model", text / model, "--out", text / "mt")
    for folder in (text / "lm/bin", text / "mt/bin"):
        assert (folder / kept).read_bytes() == (text / model).read_bytes()
        prepared = PreparedText.load(folder)
        assert prepared.decode(prepared.encode_target("36 RED CAT")) == "36 RED CAT"


@pytest.mark.parametrize(
    "model, flags, words",
    [
        ("mine.model", ["--level", "bpe"], "is for --level sentencepiece, not bpe: leave --level out."),
        ("codes", ["--symbols", "9"], "has its symbols already: leave out --symbols."),
        ("text.en", [], "is damaged, or neither a model of SentencePiece nor codes of subword-nmt: check the file."),
        ("none", [], "cannot be read (No such file or directory): check the path."),
    ],
)
def test_a_wrong_file_is_one_sentence(text, model, flags, words, script):
    done = script("text", "--raw", text / "text.en", "--model", text / model, "--out", text / "lm", *flags)
    assert done.returncode and words in done.stderr and not (text / "lm").exists()


def test_pairs_are_not_read_before_wrong_flags_are_told(text, script):
    pairs = ("--raw", text / "text.en", text / "text.de", "--source", "en", "--target", "de", "--bpe", 9)
    done = script("parallel", *pairs, "--model", text / "codes", "--out", text / "mt")
    assert "leave out --bpe" in done.stderr and not (text / "mt").exists()


@pytest.mark.parametrize("model", ["mine.model", "codes"])
def test_a_model_of_another_language_is_refused(model, text, script):
    (text / "greek").write_text("ένα κόκκινο σπίτι\n" * 60)
    done = script("text", "--raw", text / "greek", "--model", text / model, "--out", text / "lm")
    assert "% of the pieces of this text: take a model of these languages" in done.stderr
