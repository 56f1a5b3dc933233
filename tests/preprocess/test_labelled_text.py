"""Text with labels of the user's own: what is written, and what is refused."""

import gzip

import pytest
from fairseq.data import Dictionary, indexed_dataset

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


def test_symbols_and_labels_have_one_dictionary_and_the_same_lines(script, raw, tmp_path):
    folder, out = raw(), tmp_path / "out"
    (folder / "train.txt.gz").write_bytes(gzip.compress((folder / "train.txt").read_bytes()))
    (folder / "train.txt").unlink()
    done = script("labelled_text", "--raw", folder, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "2 lines, 5 symbols with as many labels" in done.stdout and "label_accuracy" in done.stdout
    dictionary = Dictionary.load(str(out / "bin/dict.txt"))
    assert {*dictionary.symbols[4:]} == {*"abc_12"}

    def lines(name):
        found = indexed_dataset.MMapIndexedDataset(str(out / "bin" / name))
        return [[dictionary[token] for token in line] for line in found]

    assert (lines("train"), lines("train.labels")) == ([[*"aba"], [*"ca"]], [[*"_12"], [*"_1"]])
    assert (lines("valid"), lines("valid.labels")) == ([[*"bc"], ["<unk>"]], [["<unk>", "_"], ["1"]])
    assert not (out / "bin/test.idx").exists()
    assert "(done before)" in script("labelled_text", "--raw", folder, "--out", out).stdout


@pytest.mark.parametrize("changed, sentence", [
    ({"train_labels": "_ 1 2\n\n_ 1 1\n"}, "train.labels has 3 labels in line 3, {raw}/train.txt 2 symbols: give each"),
    ({"train_labels": "_ 1 2\n"}, "train.labels ends before line 2 of {raw}/train.txt: give both as many lines"),
    ({"valid_txt": "b c\n"}, "valid.txt ends before line 2 of {raw}/valid.labels"),
    ({"valid_labels": None}, "has no valid.labels: put it there"),
    ({"test_txt": "a\n"}, "has no test.labels: put it there"),
    ({"train_txt": "a <pad> a\n\nc a\n"}, "train.txt has <pad> in line 1, which fairseq keeps for itself"),
    ({"train_txt": "\n", "train_labels": "\n"}, "train.txt has no symbols: put the text there"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_and_nothing_written(changed, sentence, script, raw, tmp_path):
    folder = raw(**changed)
    done = script("labelled_text", "--raw", folder, "--out", tmp_path / "out")
    assert done.returncode == 1 and sentence.format(raw=folder) in done.stderr and done.stderr.count("\n") == 1
    split = next(iter(changed)).split("_")[0]
    assert not (tmp_path / "out/bin").exists() and not (tmp_path / "out/text" / split).exists()


def test_labels_are_not_read_as_text(script, raw, tmp_path):
    done = script("text", "--raw", raw(), "--out", tmp_path / "out")
    assert done.returncode == 1 and "train.labels has labels of a text: take preprocess/labelled_text.py" in done.stderr
