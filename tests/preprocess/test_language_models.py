"""Corpora of language models: every token of the text is a token of the binarised split, and no other is."""

import gzip
from pathlib import Path

import enwik8
import pytest
from fairseq.data import Dictionary
from lib import language_model
from prepared_data import symbols

from fairseq_plugins.errors import UserError
from fairseq_plugins.text.levels import Bytes, Characters, Words
from fairseq_plugins.text.prepared import PreparedText

REAL = Path(__file__).parents[3] / "shared" / "data"


def tokens(out, split):
    """The binarised split as a list of symbols."""
    return sum(symbols(out / "bin" / split, out / "bin" / "dict.txt"), [])


def level_and_sizes(out):
    """The level of the symbols, and the bytes of the raw text of each split."""
    text = PreparedText.load(out / "bin")
    return text.level, text.raw_bytes


def as_bytes(symbols):
    return bytes(10 if symbol == "</s>" else int(symbol) for symbol in symbols)


@pytest.mark.parametrize("first", [4001, 4000], ids=["cut within a line", "cut behind its end"])
def test_enwik8_is_its_bytes(first, prepare, generated, tmp_path):
    content = (generated("enwik8") / "enwik8").read_bytes()
    content = content[:3999] + b"x\ny" + content[4002:]
    (tmp_path / "enwik8.gz").write_bytes(gzip.compress(content))
    said = prepare("enwik8", "--raw", tmp_path, "--out", tmp_path / "out", "--split", f"{first + 1},500,300")
    assert said.startswith("--split: this is not the text of published results")
    assert f"{len(content)} bytes in, train {first + 1}, valid 500, test 300 out" in said
    cuts = {"train": (0, first + 1), "valid": (first + 1, first + 501), "test": (first + 501, first + 801)}
    for split, (start, end) in cuts.items():
        assert as_bytes(tokens(tmp_path / "out", split)) == content[start:end]
    assert f"train {content[: first + 1].count(10)} line ends and" in said and f", {first + 1} in all" in said
    assert level_and_sizes(tmp_path / "out") == (Bytes(), {"train": first + 1, "valid": 500, "test": 300})


def test_text8_is_its_characters_wherever_it_was_cut_to_be_binarised(prepare, generated, tmp_path):
    raw = generated("text8", train=400)
    content = (raw / "text8").read_text()
    assert len(content) > 15_600
    said = prepare("text8", "--raw", raw, "--out", tmp_path, "--split", "15000,300,200")
    joined = {split: "".join(tokens(tmp_path, split)).replace("_", " ") for split in ("train", "valid", "test")}
    assert joined == {"train": content[:15000], "valid": content[15000:15300], "test": content[15300:15500]}
    assert "train 0 line ends and 15000 other tokens, 15000 in all, 0.0% unknown" in said
    assert level_and_sizes(tmp_path) == (Characters(space="_"), {"train": 15000, "valid": 300, "test": 200})


def test_wikitext_keeps_empty_lines_and_has_one_dictionary_for_both_ways_of_counting(prepare, generated, tmp_path):
    raw = generated("wikitext103")
    for split in ("train", "valid", "test"):
        file = raw / f"wiki.{split}.tokens"
        file.write_text(file.read_text().replace("bread", "<unk>"))
    said = prepare("wikitext103", "--raw", raw, "--out", tmp_path, "--any-size")
    assert said.startswith("--any-size: this is not the text")
    expected = [
        word for line in (raw / "wiki.train.tokens").read_text().split("\n")[:-1] for word in [*line.split(), "</s>"]
    ]
    assert tokens(tmp_path, "train") == expected and "<unk>" in expected
    assert len(set(expected)) + 2 == len(Dictionary.load(str(tmp_path / "bin" / "dict.txt")))
    assert tokens(tmp_path, "valid").count("</s>") == (raw / "wiki.valid.tokens").read_text().count("\n")
    sizes = {split: (raw / f"wiki.{split}.tokens").stat().st_size for split in ("train", "valid", "test")}
    assert level_and_sizes(tmp_path) == (Words(), sizes)


def test_char_ptb_is_its_characters(prepare, generated, tmp_path):
    raw = generated("char_ptb")
    prepare("char_ptb", "--raw", raw, "--out", tmp_path, "--any-size")
    text = (raw / "ptb.char.test.txt").read_text()
    symbols = tokens(tmp_path, "test")
    assert "".join(symbols).replace("</s>", "\n") == text.replace(" ", "")
    assert 2 * len(symbols) == len(text) - 1  # a space goes before the first and behind the last line
    level, raw_bytes = level_and_sizes(tmp_path)
    assert (level, raw_bytes["test"]) == (Characters(space="_"), len(symbols))


def test_a_last_line_without_end_gets_none(prepare, generated, tmp_path):
    raw = generated("wikitext103")
    file = raw / "wiki.test.tokens"
    file.write_text(file.read_text().rstrip())
    said = prepare("wikitext103", "--raw", raw, "--out", tmp_path, "--any-size")
    assert "(the last line has no newline)" in said
    assert tokens(tmp_path, "test")[-2:] == file.read_text().split()[-2:]


@pytest.mark.parametrize(
    "name, options, spoil, sentence",
    [
        ("enwik8", [], None, "enwik8 has {size} bytes, not 100000000: put the complete file there"),
        ("enwik8", ["--split", "9000000,5,5"], None, "enwik8 has {size} bytes, not 9000010"),
        ("enwik8", ["--file", "enwik9"], None, "has no enwik9: put it there"),
        ("text8", ["--split", "9,1,1"], "the A cat sat", "the text has the byte b'A', but text8 is letters a to z"),
        ("wikitext103", [], None, "wiki.train.tokens has"),
        ("char_ptb", ["--any-size"], "a b\n\n a b cd e \n", "ptb.char.train.txt line 3: 'cd' is not one character"),
        ("char_ptb", [], None, "not 42068 and 5017482: put the published file there"),
    ],
)
def test_broken_input_is_named(name, options, spoil, sentence, refused, generated, tmp_path):
    raw = generated(name)
    file = max(raw.iterdir(), key=lambda file: file.stat().st_size)
    if spoil:
        file.write_text(spoil)
    said = refused(name, "--raw", raw, "--out", tmp_path, *options)
    assert sentence.format(size=file.stat().st_size) in said and not (tmp_path / "bin").exists()


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "enwik8.gz").write_bytes(gzip.compress(b"ab\n" * 4)[:-9])
    with pytest.raises(UserError, match="enwik8.gz is damaged"):
        language_model.cut(tmp_path / "enwik8.gz", (6, 3, 3), False, None, enwik8.numbers)


def test_a_file_of_the_right_size_with_other_content_is_refused(tmp_path):
    (tmp_path / "enwik8").write_bytes(b"ab\n" * 4)
    with pytest.raises(UserError, match="has the right size but not the published content"):
        language_model.cut(tmp_path / "enwik8", (6, 3, 3), True, "0" * 64, enwik8.numbers)


@pytest.mark.parametrize("split", ["5,5", "5,5,0", "5,5,x"])
def test_a_split_is_three_numbers(split, refused, tmp_path):
    assert "is not three numbers of bytes" in refused("enwik8", "--out", tmp_path, "--split", split)


@pytest.mark.skipif(not (REAL / "ptb").exists(), reason="the real text is not here")
def test_real_char_ptb_has_the_published_size(script, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for split in ("train", "valid"):  # the test set, which would take a minute to binarise, is missing
        (raw / f"ptb.char.{split}.txt.gz").symlink_to(REAL / "ptb" / f"ptb.char.{split}.txt.gz")
    done = script("char_ptb", "--raw", raw, "--out", tmp_path / "out")
    assert "text-train: ptb.char.train.txt.gz 42068 lines in, 4975414 tokens and 42068 line ends out" in done.stdout
    assert "text-valid: ptb.char.valid.txt.gz 3370 lines in, 389672 tokens and 3370 line ends out" in done.stdout
    assert "has no ptb.char.test.txt" in done.stderr


def test_wikitext_as_lines_is_lower_cased_marked_and_encoded(prepare, generated, tmp_path):
    raw = generated("wikitext103")
    file = raw / "wiki.valid.tokens"
    file.write_text(" = The old Girl = \n \n <unk> saw 1 @,@ 000 well-known tree(s) @-@ \n")
    said = prepare("wikitext103", "--raw", raw, "--out", tmp_path, "--any-size", "--lines", "--bpe", 200)
    assert "clean-valid: 3 lines in, 1 left out without a word, 2 out" in said
    assert "--task language_modeling --sample-break-mode eos" in said
    assert (tmp_path / "clean" / "valid").read_text() == (
        "= the old girl =\n<unk> saw 1 @,@ 000 well @-@ known tree ( s ) @-@\n"
    )
    joined = " ".join(tokens(tmp_path, "valid")).replace("@@ ", "").split()
    assert joined[:6] == ["=", "the", "old", "girl", "=", "</s>"] and joined[-1] == "</s>"
    assert (tmp_path / "bpe" / "valid").read_text().split("\n")[1].split()[0] == "<unk>"
    lines = (tmp_path / "bpe" / "train").read_text().count("\n")
    assert tokens(tmp_path, "train").count("</s>") == lines
    words = set((tmp_path / "clean" / "train").read_text().split()) - {"<unk>"}
    characters = {(sign, last) for word in words for sign, last in zip(word, [False] * (len(word) - 1) + [True])}
    merges = (tmp_path / "codes.bpe").read_text().count("\n") - 1
    assert merges + len(characters) == 200  # symbols, not merges
