"""Corpora of language models: every token of the text is a token of the binarised split, and no other is."""

import gzip
from pathlib import Path

import enwik8
import pytest
from fairseq.data import Dictionary, indexed_dataset
from lib import language_model

from fairseq_plugins.errors import UserError
from fairseq_plugins.text.levels import Bytes, Characters, Words
from fairseq_plugins.text.prepared import PreparedText

REAL = Path(__file__).parents[3] / "shared" / "data"


def tokens(out, split):
    """The binarised split as a list of symbols."""
    dictionary = Dictionary.load(str(out / "bin" / "dict.txt"))
    data = indexed_dataset.make_dataset(str(out / "bin" / split), impl="mmap")
    return [dictionary[index] for number in range(len(data)) for index in data[number].tolist()]


def prepared(out):
    """The level of the symbols, and the bytes of the raw text of each split."""
    text = PreparedText.load(out / "bin")
    return text.level, text.raw_bytes


def as_bytes(symbols):
    return bytes(10 if symbol == "</s>" else int(symbol) for symbol in symbols)


def prepare(script, name, raw, out, *options):
    done = script(name, "--raw", raw, "--out", out, "--workers", 2, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("first", [4001, 4000], ids=["cut within a line", "cut behind its end"])
def test_enwik8_is_its_bytes(first, script, generated, tmp_path):
    content = (generated("enwik8") / "enwik8").read_bytes()
    content = content[:3999] + b"x\ny" + content[4002:]
    (tmp_path / "enwik8.gz").write_bytes(gzip.compress(content))
    said = prepare(script, "enwik8", tmp_path, tmp_path / "out", "--split", f"{first + 1},500,300")
    assert said.startswith("--split: this is not the text of published results")
    assert f"{len(content)} bytes in, train {first + 1}, valid 500, test 300 out" in said
    cuts = {"train": (0, first + 1), "valid": (first + 1, first + 501), "test": (first + 501, first + 801)}
    for split, (start, end) in cuts.items():
        assert as_bytes(tokens(tmp_path / "out", split)) == content[start:end]
    assert f"train {content[: first + 1].count(10)} line ends and" in said and f", {first + 1} in all" in said
    assert prepared(tmp_path / "out") == (Bytes(), {"train": first + 1, "valid": 500, "test": 300})


def test_text8_is_its_characters_wherever_it_was_cut_to_be_binarised(script, generated, tmp_path):
    raw = generated("text8", train=400)
    content = (raw / "text8").read_text()
    assert len(content) > 15_600
    said = prepare(script, "text8", raw, tmp_path, "--split", "15000,300,200")
    joined = {split: "".join(tokens(tmp_path, split)).replace("_", " ") for split in ("train", "valid", "test")}
    assert joined == {"train": content[:15000], "valid": content[15000:15300], "test": content[15300:15500]}
    assert "train 0 line ends and 15000 other tokens, 15000 in all, 0.0% unknown" in said
    assert prepared(tmp_path) == (Characters(space="_"), {"train": 15000, "valid": 300, "test": 200})


def test_wikitext_keeps_empty_lines_and_has_one_dictionary_for_both_ways_of_counting(script, generated, tmp_path):
    raw = generated("wikitext103")
    for split in ("train", "valid", "test"):
        file = raw / f"wiki.{split}.tokens"
        file.write_text(file.read_text().replace("bread", "<unk>"))
    said = prepare(script, "wikitext103", raw, tmp_path, "--any-size")
    assert said.startswith("--any-size: this is not the text")
    expected = [
        word for line in (raw / "wiki.train.tokens").read_text().split("\n")[:-1] for word in [*line.split(), "</s>"]
    ]
    assert tokens(tmp_path, "train") == expected and "<unk>" in expected
    assert len(set(expected)) + 2 == len(Dictionary.load(str(tmp_path / "bin" / "dict.txt")))
    assert tokens(tmp_path, "valid").count("</s>") == (raw / "wiki.valid.tokens").read_text().count("\n")
    sizes = {split: (raw / f"wiki.{split}.tokens").stat().st_size for split in ("train", "valid", "test")}
    assert prepared(tmp_path) == (Words(), sizes)


def test_char_ptb_is_its_characters(script, generated, tmp_path):
    raw = generated("char_ptb")
    prepare(script, "char_ptb", raw, tmp_path, "--any-size")
    text = (raw / "ptb.char.test.txt").read_text()
    symbols = tokens(tmp_path, "test")
    assert "".join(symbols).replace("</s>", "\n") == text.replace(" ", "")
    assert 2 * len(symbols) == len(text) - 1  # a space goes before the first and behind the last line
    level, raw_bytes = prepared(tmp_path)
    assert (level, raw_bytes["test"]) == (Characters(space="_"), len(symbols))


def test_a_last_line_without_end_gets_none(script, generated, tmp_path):
    raw = generated("wikitext103")
    file = raw / "wiki.test.tokens"
    file.write_text(file.read_text().rstrip())
    said = prepare(script, "wikitext103", raw, tmp_path, "--any-size")
    assert "(the last line has no newline)" in said
    assert tokens(tmp_path, "test")[-2:] == file.read_text().split()[-2:]


def spoil_letters(raw):
    file = raw / "text8"
    file.write_text(file.read_text()[:5] + "A" + file.read_text()[6:])


def spoil_gzip(raw):
    whole = gzip.compress((raw / "enwik8").read_bytes())
    (raw / "enwik8").unlink()
    (raw / "enwik8.gz").write_bytes(whole[: len(whole) // 2])


def spoil_symbol(raw):
    file = raw / "ptb.char.valid.txt"
    lines = file.read_text().split("\n")
    file.write_text("\n".join([*lines[:2], " a b cd e ", *lines[3:]]))


def spoil_nothing(raw):
    pass


@pytest.mark.parametrize(
    "name, options, spoil, sentence",
    [
        ("enwik8", [], spoil_nothing, "enwik8 has {bytes} bytes, not 100000000: put the complete file there"),
        ("enwik8", ["--split", "9000000,5,5"], spoil_nothing, "enwik8 has {bytes} bytes, not 9000010"),
        ("enwik8", ["--split", "900,100,100"], spoil_gzip, "enwik8.gz is damaged"),
        ("enwik8", ["--file", "enwik9"], spoil_nothing, "has no enwik9: put it there"),
        ("text8", ["--split", "900,100,100"], spoil_letters, "the text has the byte b'A', but text8 is letters a to z"),
        ("wikitext103", [], spoil_nothing, "wiki.train.tokens has"),
        ("char_ptb", ["--any-size"], spoil_symbol, "ptb.char.valid.txt line 3: 'cd' is not one character"),
        ("char_ptb", [], spoil_nothing, "not 42068 and 5017482: put the published file there"),
    ],
)
def test_broken_input_is_named(name, options, spoil, sentence, script, generated, tmp_path):
    raw = generated(name)
    size = (raw / "enwik8").stat().st_size if name == "enwik8" else 0
    spoil(raw)
    done = script(name, "--raw", raw, "--out", tmp_path, *options)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith(f"{name}.py: error: ") and sentence.format(bytes=size) in done.stderr
    assert not (tmp_path / "bin").exists()


def test_a_file_of_the_right_size_with_other_content_is_refused(tmp_path):
    (tmp_path / "enwik8").write_bytes(b"ab\n" * 4)
    with pytest.raises(UserError, match="has the right size but not the published content"):
        language_model.cut(tmp_path / "enwik8", (6, 3, 3), True, "0" * 64, enwik8.numbers)


@pytest.mark.parametrize("split", ["5,5", "5,5,0", "5,5,x"])
def test_a_split_is_three_numbers(split, script, tmp_path):
    done = script("enwik8", "--out", tmp_path, "--split", split)
    assert done.returncode == 2 and "is not three numbers of bytes" in done.stderr


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


def test_wikitext_as_lines_is_lower_cased_marked_and_encoded(script, generated, tmp_path):
    raw = generated("wikitext103")
    file = raw / "wiki.valid.tokens"
    file.write_text(" = The old Girl = \n \n <unk> saw 1 @,@ 000 well-known tree(s) @-@ \n")
    said = prepare(script, "wikitext103", raw, tmp_path, "--any-size", "--lines", "--bpe", 200)
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
