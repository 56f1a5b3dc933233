"""Vocabularies of the repositories: from what they pickled, from the text that they counted, from a list."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from fairseq_plugins.conversion.sources import source
from fairseq_plugins.conversion.vocabulary import Vocabulary, read_vocabulary
from fairseq_plugins.errors import UserError

TRAIN = "the cat sat on the mat\n\nthe dog\n"
BY_APPEARANCE = ["the", "cat", "sat", "on", "mat", "<eos>", "dog"]
BY_COUNT = ["<eos>", "the", "dog", "mat", "on", "sat", "cat"]  # of equal counts the last to appear comes first


def read(path, name, symbols, **options):
    """The vocabulary of a model with so many symbols."""
    return read_vocabulary(path, source(name), SimpleNamespace(symbols=symbols, options=options))


@pytest.mark.parametrize(
    "name, options, symbols, ends_lines",
    [
        ("adaptive-span", {}, BY_APPEARANCE, True),
        ("adaptive-span", {"adaptive_input": True}, BY_COUNT, True),
        ("transformer-sequential", {}, [*BY_COUNT, "<unk>"], False),
    ],
)
def test_a_text_is_counted_as_the_repository_counts_it(name, options, symbols, ends_lines, tmp_path):
    for text in (TRAIN, TRAIN.removesuffix("\n")):  # the last line always ends
        (tmp_path / "train.txt").write_text(text)
        assert read(tmp_path / "train.txt", name, len(symbols), **options)[:2] == (symbols, ends_lines)


def test_transformer_xl_counts_other_texts_too_where_lines_do_not_end(tmp_path):
    """Of equal counts the first to appear comes first, and the end of line stands before all."""
    texts = {"train.txt": TRAIN, "valid.txt": "a cat\n", "test.txt": "the cat\n"}
    (tmp_path / "train.txt").write_text(TRAIN)
    alone = read(tmp_path / "train.txt", "transformer-xl", 6)
    symbols = ["the", "cat", "sat", "on", "mat", "dog"]
    assert alone.symbols == symbols and "train.txt alone was counted" in alone.notes[0]
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    *found, notes = read(tmp_path / "train.txt", "transformer-xl", 7)
    assert found == [[*symbols, "a"], False] and "as many symbols in another order" in notes[0]
    assert read(tmp_path / "train.txt", "transformer-xl", 8) == Vocabulary(["<eos>", *symbols, "a"], True)
    words_only = read(tmp_path / "train.txt", "transformer-xl", 7, adaptive_input=True)
    assert words_only[:2] == (["<eos>", *symbols], True)


def test_labels_beside_a_text_count_too(tmp_path):
    (tmp_path / "train.txt").write_text("a a a b\n")
    (tmp_path / "train.txt.labels").write_text("_ _ _ b\n")
    assert read(tmp_path / "train.txt", "transformer-sequential", 5).symbols == ["_", "a", "<eos>", "b", "<unk>"]


@pytest.mark.parametrize(
    "text", ["the\n<eos>\ncat\n", "the\n<eos>\ncat\n\n \n", "the 7\n<eos> 3\ncat 1\n", "the 7\n<eos> 3\ncat 1"]
)
def test_a_list_gives_the_symbols_as_they_are(text, tmp_path):
    (tmp_path / "dict.txt").write_text(text)
    assert read(tmp_path / "dict.txt", "adaptive-span", 3) == Vocabulary(["the", "<eos>", "cat"], True)
    for others in (4, 5, 6):  # as many as words would be counted in it
        with pytest.raises(UserError, match=f"has 3 symbols, but the model has {others}"):
            read(tmp_path / "dict.txt", "adaptive-span", others)


def test_a_list_has_no_gap(tmp_path):
    (tmp_path / "dict.txt").write_text("the\n \ncat\n")
    with pytest.raises(UserError, match="dict.txt has no symbol in line 2; write it as the repository does"):
        read(tmp_path / "dict.txt", "adaptive-span", 3)


def test_a_list_of_transformer_sequential_has_an_end_of_line_that_texts_do_not(tmp_path):
    (tmp_path / "dict.txt").write_text("the\n<eos>\n<unk>\n")
    found = read(tmp_path / "dict.txt", "transformer-sequential", 3)
    assert not found.ends_lines and "give --data-eos" in found.notes[0]
    model = SimpleNamespace(symbols=3, options={})
    told = read_vocabulary(tmp_path / "dict.txt", source("transformer-sequential"), model, data_eos=True)
    assert told == (found.symbols, True, ())


@pytest.fixture
def corpora(monkeypatch, tmp_path):
    """corpora(attributes of the corpus, legacy) -> a file with a pickled data.Corpus that has a data.Dictionary."""
    module = ModuleType("data")
    module.Corpus, module.Dictionary = (type(name, (), {"__module__": "data"}) for name in ("Corpus", "Dictionary"))
    for kind in (module.Corpus, module.Dictionary):
        kind.__qualname__ = kind.__name__
    monkeypatch.setitem(sys.modules, "data", module)

    def make(name, symbols, legacy=False, **more):
        corpus, dictionary = module.Corpus(), module.Dictionary()
        dictionary.idx2word = symbols
        dictionary.word2idx = {symbol: number for number, symbol in enumerate(symbols)}
        vars(corpus).update({name: dictionary, "train": torch.arange(3), **more})
        torch.save(corpus, tmp_path / "corpus.pt", _use_new_zipfile_serialization=not legacy)
        monkeypatch.delitem(sys.modules, "data", raising=False)  # nobody who reads it has the class
        return tmp_path / "corpus.pt"

    return make


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    "name, attribute, more, ends_lines",
    [
        ("adaptive-span", "_dictionary", {}, True),
        ("transformer-sequential", "dictionary", {"include_eos": False}, False),
        ("transformer-sequential", "dictionary", {"include_eos": True}, True),
    ],
)
def test_a_pickled_corpus_is_read_without_its_classes(name, attribute, more, ends_lines, legacy, corpora):
    file = corpora(attribute, ["a", "<eos>"], legacy, **more)
    assert read(file, name, 2) == Vocabulary(["a", "<eos>"], ends_lines)


def test_the_corpus_of_another_repository_is_refused(corpora):
    """Both repositories call it data.Corpus and corpus.pt."""
    file = corpora("dictionary", ["a", "<eos>"])
    with pytest.raises(UserError, match="--vocabulary is no corpus that adaptive-span pickles"):
        read(file, "adaptive-span", 2)


@pytest.mark.parametrize(
    "symbols, words", [(["a", "b", "<eos>"], "has 3 symbols, but the model has 2"), (["a", "a"], "'a' twice")]
)
def test_symbols_that_are_not_those_of_the_model_are_refused(symbols, words, corpora):
    with pytest.raises(UserError, match=words):
        read(corpora("_dictionary", symbols), "adaptive-span", 2)
