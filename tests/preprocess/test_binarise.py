"""The files that are written are those of fairseq-preprocess."""

import filecmp
import random

import pytest
from lib import binarise
from prepared_data import symbols

WORDS = ["the", "кот", "雨", "a", "<unk>", "@-@", "madeup", "\u2581x"]


@pytest.fixture
def texts(tmp_path):
    """Three splits: long and empty lines, a symbol that train lacks, and no newline at the end."""
    draw = random.Random(1)
    lines = [" ".join(draw.choices(WORDS, [9, 5, 5, 3, 2, 1, 1, 1], k=draw.choice([0, 1, 7, 300]))) for _ in range(60)]
    paths = {split: tmp_path / split for split in ("train", "valid", "test")}
    paths["train"].write_text("\n".join(lines) + "\n", encoding="utf-8")
    paths["valid"].write_text("the new кот\n\n", encoding="utf-8")
    paths["test"].write_text("the\nnew 雨", encoding="utf-8")
    return paths


@pytest.mark.parametrize("chunk, multiple, min_count", [(2**20, 8, 1), (5, 1, 40)])
def test_files_are_those_of_fairseq_preprocess(chunk, multiple, min_count, texts, run, tmp_path, monkeypatch):
    monkeypatch.setattr(binarise, "CHUNK", chunk)
    prefixes = [word for split, path in texts.items() for word in (f"--{split}pref", path)]
    options = ["--padding-factor", multiple, "--thresholdsrc", min_count, "--workers", 1]
    run("fairseq-preprocess", "--only-source", *prefixes, *options, "--destdir", tmp_path / "theirs")
    ours = tmp_path / "ours"
    ours.mkdir()
    counts = binarise.count([texts["train"]])
    binarise.write_dictionary(ours / "dict.txt", counts, min_count=min_count, multiple=multiple)
    indices = binarise.Indices(ours / "dict.txt")
    made = {split: binarise.binarise(path, ours / split, indices) for split, path in texts.items()}
    assert made["valid"] == (2, 2, 3, 1) and made["test"] == (2, 2, 3, 1)
    names = ["dict.txt", *(f"{split}.{kind}" for split in texts for kind in ("bin", "idx"))]
    assert filecmp.cmpfiles(ours, tmp_path / "theirs", names, shallow=False) == (names, [], [])


@pytest.mark.parametrize(
    "ends, lines",
    [
        (binarise.ALL, [["the", "</s>"], ["<unk>", "雨", "</s>"]]),
        (binarise.NEWLINES, [["the", "</s>"], ["<unk>", "雨"]]),
        (binarise.NONE, [["the"], ["<unk>", "雨"]]),
    ],
)
def test_end_of_line_tokens(ends, lines, texts, tmp_path):
    binarise.write_dictionary(tmp_path / "dict.txt", binarise.count([texts["train"]]))
    made = binarise.binarise(texts["test"], tmp_path / "made", binarise.Indices(tmp_path / "dict.txt"), ends)
    assert symbols(tmp_path / "made", tmp_path / "dict.txt") == lines
    assert made == (2, sum(lines, []).count("</s>"), 3, 1)


def test_symbols_that_do_not_occur_may_be_in_the_dictionary(tmp_path):
    binarise.write_dictionary(tmp_path / "dict.txt", {"b": 2, "a": 2, "<unk>": 3, "</s>": 4}, always=["c", "a"])
    assert (tmp_path / "dict.txt").read_text() == "a 2\nb 2\nc 0\n"


def test_large_dictionaries_take_wider_numbers(tmp_path):
    (tmp_path / "text").write_text("w7 w69999\n")
    binarise.write_dictionary(tmp_path / "dict.txt", {f"w{number}": 1 for number in range(70_000)})
    binarise.binarise(tmp_path / "text", tmp_path / "made", binarise.Indices(tmp_path / "dict.txt"))
    assert symbols(tmp_path / "made", tmp_path / "dict.txt") == [["w7", "w69999", "</s>"]]
