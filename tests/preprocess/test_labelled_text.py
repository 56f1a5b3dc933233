"""Text with labels of the user's own: what is written, and what is refused."""

import gzip

import pytest
from fairseq.data import Dictionary
from prepared_data import symbols

PAIRS = {
    "train": ("a b a\n\n  c   a\n", "_ 1 2\n\n_ 1\n"),
    "valid": ("b c\nd", "3 _\n1"),
}


@pytest.fixture
def raw(tmp_path):
    """raw(NAME=text...): a folder with these files instead of those of PAIRS."""

    def raw(**changed):
        files = {
            f"{split}.{kind}": text for split, pair in PAIRS.items() for kind, text in zip(("txt", "labels"), pair)
        }
        files |= {name.replace("_", "."): text for name, text in changed.items()}
        folder = tmp_path / "raw"
        folder.mkdir()
        for name, text in files.items():
            if text is not None:
                (folder / name).write_text(text)
        return folder

    return raw


def test_symbols_and_labels_have_one_dictionary_and_the_same_lines(prepare, raw, tmp_path):
    folder, out = raw(), tmp_path / "out"
    (folder / "train.txt.gz").write_bytes(gzip.compress((folder / "train.txt").read_bytes()))
    (folder / "train.txt").unlink()
    said = prepare("labelled_text", "--raw", folder, "--out", out)
    assert "2 lines, 5 symbols with as many labels" in said and "label_accuracy" in said
    assert {*Dictionary.load(str(out / "bin/dict.txt")).symbols[4:]} == {*"abc_12"}

    def lines(name):
        return symbols(out / "bin" / name, out / "bin/dict.txt")

    assert (lines("train"), lines("train.labels")) == ([[*"aba"], [*"ca"]], [[*"_12"], [*"_1"]])
    assert (lines("valid"), lines("valid.labels")) == ([[*"bc"], ["<unk>"]], [["<unk>", "_"], ["1"]])
    assert not (out / "bin/test.idx").exists()
    assert "(done before)" in prepare("labelled_text", "--raw", folder, "--out", out)


@pytest.mark.parametrize("changed, sentence", [
    ({"train_labels": "_ 1 2\n\n_ 1 1\n"}, "train.labels has 3 labels in line 3, {raw}/train.txt 2 symbols: give each"),
    ({"train_labels": "_ 1 2\n"}, "train.labels ends before line 2 of {raw}/train.txt: give both as many lines"),
    ({"valid_txt": "b c\n"}, "valid.txt ends before line 2 of {raw}/valid.labels"),
    ({"valid_labels": None}, "has no valid.labels: put it there"),
    ({"test_txt": "a\n"}, "has no test.labels: put it there"),
    ({"train_txt": "a <pad> a\n\nc a\n"}, "train.txt has <pad> in line 1, which fairseq keeps for itself"),
    ({"train_labels": "_ <unk> 2\n\n_ 1\n"}, "train.labels has <unk> in line 1, which fairseq keeps for itself"),
    ({"train_txt": "\n", "train_labels": "\n"}, "train.txt has no symbols: put the text there"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_and_nothing_written(changed, sentence, refused, raw, tmp_path):
    folder = raw(**changed)
    assert sentence.format(raw=folder) in refused("labelled_text", "--raw", folder, "--out", tmp_path / "out")
    split = next(iter(changed)).split("_")[0]
    assert not (tmp_path / "out/bin").exists() and not (tmp_path / "out/text" / split).exists()


def test_labels_are_not_read_as_text(refused, raw, tmp_path):
    said = refused("text", "--raw", raw(), "--out", tmp_path / "out")
    assert "train.labels has labels of a text: take preprocess/labelled_text.py" in said
