import pytest

from fairseq_plugins.text import levels
from fairseq_plugins.text.levels import LEVELS, BytePairs, Bytes, Characters, SentencePieces, Words

LINES = [
    "", "a b", "  two  spaces ", "tab\there", "под дождём", "雨が降る", "▁ <s> <pad> <U+0041> madeupword0000",
    "a\u3000b\x1cc",
]  # fmt: skip
CORPUS = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog"] * 20


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    from subword_nmt.learn_bpe import learn_bpe

    path = tmp_path_factory.mktemp("codes") / "codes.bpe"
    with open(path, "w", encoding="utf-8") as file:
        learn_bpe(CORPUS, file, 20)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    import sentencepiece

    prefix = tmp_path_factory.mktemp("model") / "sentencepiece"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_prefix=str(prefix), vocab_size=300, byte_fallback=True,
        normalization_rule_name="identity", hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return prefix.with_suffix(".model")


@pytest.mark.parametrize("level", [Bytes(), Characters(), Characters(space="_")], ids=str)
@pytest.mark.parametrize("line", LINES + ["snake_case"])
def test_bytes_and_characters_bring_back_every_line(level, line):
    assert level.decode(level.encode(line)) == line


@pytest.mark.parametrize("line", LINES + ["snake_case"])
def test_words_and_byte_pairs_bring_back_the_words(line, codes):
    for level in (Words(), BytePairs(codes)):
        assert level.decode(level.encode(line)) == " ".join(line.split())


@pytest.mark.parametrize("line", ["the cat", "tab\there", "<s> под дождём", "雨が降る <U+0041>"])
def test_sentence_pieces_bring_back_the_line(line, model):
    level = SentencePieces(model)
    assert level.decode(level.encode(line)) == line


@pytest.mark.parametrize("line", LINES)
def test_no_symbol_is_a_special_one_of_the_dictionary(line, codes, model):
    levels = [Bytes(), Characters(), Words(), BytePairs(codes), SentencePieces(model)]
    assert {*map(type, levels)} == {*LEVELS.values()}
    for level in levels:
        assert not {"<s>", "</s>", "<pad>", "<unk>", "madeupword0000"} & set(level.encode(line).split())


def test_symbols_of_each_level(codes, model):
    assert Bytes().encode("hé") == "104 195 169"
    assert Characters().encode("a b\t") == "a ▁ b <U+0009>"
    assert Words().encode("a  b ") == "a b"
    assert "@@" in BytePairs(codes).encode("unknown")
    assert BytePairs(codes, ("<unk>",)).encode("a <unk> <s>").startswith("a <unk> <@@")
    assert SentencePieces(model).encode("the cat").startswith("▁")


@pytest.mark.parametrize("symbol", ["<U+FFFFFF>", "<U+D800>"])
def test_what_is_no_character_stays_as_it_is(symbol):
    assert Words().decode(symbol) == Characters().decode(symbol) == symbol


def test_bytes_of_a_model_may_be_no_text():
    assert Bytes().decode("195 104 <unk> 300") == "\ufffdh"


def test_words_are_split_as_subword_nmt_splits_lines(codes, monkeypatch):
    """Each word is split once; what is known is forgotten before it takes much memory."""
    from subword_nmt.apply_bpe import BPE

    monkeypatch.setattr(levels, "WORDS", 3)
    levels._pieces.cache_clear()
    level = BytePairs(codes)
    with open(codes) as file:
        encoder = BPE(file)
    lower = "the lower the better"
    for line in (lower, "newest widest  lowest", " the unknown @-@ &apos; ü\u3000x ", "", lower):
        words = [levels.safe(word) for word in line.split()]
        assert level.encode(line) == encoder.process_line(" ".join(words))
    assert levels._pieces(codes, ()).cache_info().currsize <= 3
