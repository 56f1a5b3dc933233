import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.text import levels
from fairseq_plugins.text.encoder import PreparedEncoder
from fairseq_plugins.text.keeping import (
    holds_other_text,
    keep_with_checkpoints,
    refuse_other_symbols,
    refuse_other_text,
)
from fairseq_plugins.text.levels import BytePairs, Bytes, Characters, SentencePieces
from fairseq_plugins.text.prepared import FILE, PreparedText, find, folder_of
from fairseq_plugins.text.tokenisers import Moses, Plain

RAW = "\ufeff a\tb \x1c c "


@pytest.fixture
def translation(tmp_path):
    codes = tmp_path / "codes.bpe"
    codes.write_text("#version: 0.2\nh e\nhe n</w>\n", encoding="utf-8")
    return PreparedText(Moses("de", lower=True), Moses("en"), BytePairs(codes), "de", "en")


def test_a_folder_says_how_its_text_was_prepared(translation, tmp_path):
    translation.save(tmp_path / "bin")
    (tmp_path / "codes.bpe").unlink()  # the folder has a copy
    loaded = PreparedText.load(tmp_path / "bin")
    assert loaded.encode("Zehn Hennen.") == "z@@ e@@ h@@ n he@@ n@@ n@@ e@@ n ."
    assert loaded.encode_target("Ten.") == "T@@ e@@ n ."
    assert loaded.decode("T@@ e@@ n , he@@ n .") == "Ten, hen."
    assert (loaded.source_language, loaded.target_language) == ("de", "en")


def test_the_first_folder_that_has_one_is_taken(translation, tmp_path):
    assert find(tmp_path / "none", tmp_path) is None
    translation.save(tmp_path / "bin")
    assert find(tmp_path / "none", tmp_path / "bin").source == translation.source


def test_missing_codes_are_named(translation, tmp_path):
    translation.save(tmp_path / "bin")
    (tmp_path / "bin" / "codes.bpe").unlink()
    with pytest.raises(UserError, match="codes.bpe is missing"):
        PreparedText.load(tmp_path / "bin")


def test_checkpoints_keep_what_their_text_needs(translation, tmp_path):
    data, runs = tmp_path / "bin", tmp_path / "runs"
    data.mkdir()
    (data / "dict.de.txt").write_text("he@@ 1\n")
    keep_with_checkpoints(data, runs)
    assert {file.name for file in runs.iterdir()} == {"dict.de.txt"}  # nobody knows how this text was prepared
    translation.save(data)
    keep_with_checkpoints(data, runs)
    assert {file.name for file in runs.iterdir()} == {FILE, "codes.bpe", "dict.de.txt"}
    assert PreparedText.load(runs).encode("Hen") == "hen"


@pytest.fixture
def trained(translation, tmp_path):
    """A data folder, and the folder of a model of its text."""
    data, runs = tmp_path / "bin", tmp_path / "runs"
    data.mkdir()
    (data / "dict.de.txt").write_text("he@@ 2\nn 1\n")
    translation.save(data)
    keep_with_checkpoints(data, runs)
    (runs / "checkpoint_last.pt").touch()
    return data, runs


def test_a_training_goes_on_with_the_same_text(trained, translation):
    data, runs = trained
    refuse_other_text(data, runs)
    (data / "dict.de.txt").write_text("he@@ 7\nn 4\n")
    replace(translation, raw_bytes={"train": 5}).save(data)  # more of the same text, with the same symbols
    refuse_other_text(data, runs)
    keep_with_checkpoints(data, runs)
    assert PreparedText.load(runs).raw_bytes == {"train": 5}


def of_earlier_version(folder):
    """``prepared_text.json`` as versions wrote it that had neither checksums nor whole words."""
    content = json.loads((folder / FILE).read_text(encoding="utf-8"))
    for name in ("files", "sha256"):
        del content[name]
    for side in ("source", "target"):
        content[side].pop("whole_words", None)
    (folder / FILE).write_text(json.dumps(content), encoding="utf-8")


def test_a_training_of_an_earlier_version_goes_on(trained):
    data, runs = trained
    of_earlier_version(runs)
    refuse_other_text(data, runs)
    keep_with_checkpoints(data, runs)
    assert "sha256" in (runs / FILE).read_text()
    for folder in trained:
        of_earlier_version(folder)
    refuse_other_text(data, runs)


def other_codes(data, prepared):
    prepared.level.codes.write_text("#version: 0.2\nh e\n", encoding="utf-8")
    prepared.save(data)


def other_dictionary(data, prepared):
    (data / "dict.de.txt").write_text("n 4\nhe@@ 1\n")
    prepared.save(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda data, prepared: replace(prepared, source=Plain(lower=True)).save(data),
        lambda data, prepared: replace(prepared, level=Characters()).save(data),
        other_codes,
        other_dictionary,
    ],
)
def test_a_model_of_other_text_is_not_overwritten(change, trained, translation):
    data, runs = trained
    change(data, translation)
    with pytest.raises(UserError, match=f"{runs} holds a model of differently prepared text: give another --save-dir"):
        refuse_other_text(data, runs)
    (runs / "checkpoint_last.pt").unlink()
    refuse_other_text(data, runs)  # nothing is lost


def test_a_model_reads_no_data_with_other_symbols(trained, translation, tmp_path):
    data, runs = trained
    (tmp_path / "best.pt").symlink_to(runs / "checkpoint_last.pt")
    (data / "dict.de.txt").write_text("he@@ 7\r\nn 4")
    refuse_other_symbols(data, runs / "checkpoint_last.pt")  # the same symbols are more frequent
    other_dictionary(data, translation)
    for checkpoint in (runs / "checkpoint_last.pt", tmp_path / "best.pt"):
        with pytest.raises(UserError, match=f"{checkpoint} is of a text with other symbols than {data}, .* dict.de"):
            refuse_other_symbols(data, checkpoint)


def test_a_folder_without_checkpoints_may_hold_another_text(trained, translation, tmp_path):
    data, runs = trained
    assert not holds_other_text(data, runs) and not holds_other_text(data, tmp_path)
    other_dictionary(data, translation)
    assert holds_other_text(data, runs)
    (runs / FILE).unlink()
    assert holds_other_text(data, runs)


def test_text_of_earlier_versions_is_split_at_marks_as_then(translation, tmp_path):
    translation.save(tmp_path)
    assert PreparedText.load(tmp_path).source.tokenise("o\u0301") == "o\u0301"
    of_earlier_version(tmp_path)
    assert PreparedText.load(tmp_path).source.tokenise("o\u0301") == "o \u0301"


@pytest.mark.parametrize("earlier", [False, True])
def test_every_flipped_bit_is_found(translation, earlier, tmp_path):
    """In files of earlier versions, without checksums, what still loads may differ; nothing else happens."""
    (tmp_path / "dict.de.txt").write_text("he@@ 2\nn 1\n")
    translation.save(tmp_path)
    if earlier:
        of_earlier_version(tmp_path)
    for file in (tmp_path / name for name in (FILE, "codes.bpe", "dict.de.txt")):
        content = file.read_bytes()
        for place in range(0, len(content), 7):
            for bit in (0, 5, 7):
                changed = bytes([content[place] ^ 1 << bit])
                file.write_bytes(content[:place] + changed + content[place + 1 :])
                levels._pieces.cache_clear()
                try:
                    PreparedText.load(tmp_path).encode("hen")
                    assert earlier, f"{file.name}, byte {place}, bit {bit}"
                except UserError as error:
                    assert (earlier or file.name in str(error)) and "\n" not in str(error)
        file.write_bytes(content)
    assert PreparedText.load(tmp_path).encode("Hen") == "hen"


EDITS = [
    {"level": {"kind": "syllable"}}, {"source": 1},
    {"level": []}, {"level": "word"}, {"level": {"kind": ["word"]}}, {"level": {"kind": None}}, {"level": {}},
    {"level": {"kind": "bpe", "codes": 3}}, {"level": {"kind": "bpe", "codes": ""}}, {"level": {"kind": "bpe"}},
    {"level": {"kind": "bpe", "codes": "codes.bpe", "glossaries": 3}}, {"level": {"kind": "char", "space": ""}},
    {"level": {"kind": "bpe", "codes": "codes.bpe", "glossaries": [3]}}, {"level": {"kind": "char", "space": " "}},
    {"level": {"kind": "bpe", "codes": "codes.bpe", "glossaries": ["("]}}, {"level": {"kind": "char", "space": 3}},
    {"level": {"kind": "bpe", "codes": "../codes.bpe"}}, {"level": {"kind": "bpe", "codes": "codes\0.bpe"}},
    {"source": None}, {"source": []}, {"source": {"kind": "plain", "lower": "no"}}, {"source": {"kind": "moses"}},
    {"source": {"kind": "moses", "language": 3}}, {"source": {"kind": "moses", "language": ["de"]}},
    {"target": {"kind": "plain_beginning", "words": "400"}}, {"target": {"kind": "plain_beginning", "words": -1}},
    {"target": {"kind": "plain", "words": 3}}, {"target": {"kind": "moses_beginning", "language": "de", "words": 1.5}},
    {"source_language": 3}, {"source_language": None}, {"source_language": ["de"]}, {"source_language": "a/b"},
    {"target_language": {}}, {"target_language": ""}, {"raw_bytes": []}, {"raw_bytes": {"train": -1}},
    {"raw_bytes": {"train": "5"}}, {"raw_bytes": {"train": True}}, {"raw_bytes": None}, {"raw_bytes": 3},
    {"files": {}}, {"files": []}, {"sha256": "0"}, {"sha256": ""}, {"files": {}, "sha256": 3}, {"more": 1},
]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_edited_files_are_refused_in_a_sentence(edit, translation, tmp_path):
    """Without checksums, as earlier versions wrote them."""
    translation.save(tmp_path)
    of_earlier_version(tmp_path)
    content = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    (tmp_path / FILE).write_text(json.dumps(content | edit), encoding="utf-8")
    with pytest.raises(UserError, match=rf"{FILE} is damaged|codes.bpe is damaged"):
        PreparedText.load(tmp_path).encode("hen")


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "null", '"files"', "[" * 100_000, '{"a": 1, "a": 2}', '{"raw_bytes": NaN}', "9" * 5000]
)
def test_what_is_no_prepared_text_is_refused_in_a_sentence(text, tmp_path):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(UserError, match=f"{FILE} is damaged"):
        PreparedText.load(tmp_path)
    (tmp_path / FILE).unlink()
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(UserError, match=f"{FILE} does not exist"):
        PreparedText.load(tmp_path)


def test_damaged_codes_of_earlier_versions_do_not_end_the_program(translation, tmp_path):
    """subword-nmt would exit, and name no file."""
    translation.save(tmp_path)
    of_earlier_version(tmp_path)
    for content in (b"#version: 0.2\nh e n\n", b"#version: x\nh e\n", b"#version:\nh e\n", b"\xff\n", b""):
        (tmp_path / "codes.bpe").write_bytes(content)
        levels._pieces.cache_clear()
        with pytest.raises(UserError, match="codes.bpe is damaged, or not of byte pair encoding"):
            PreparedText.load(tmp_path).encode("hen")


def test_a_damaged_model_of_sentencepiece_is_named(tmp_path):
    (tmp_path / "sentencepiece.model").write_bytes(b"no model")
    with pytest.raises(UserError, match="sentencepiece.model is damaged, or not a model of SentencePiece"):
        SentencePieces(tmp_path / "sentencepiece.model").encode("hen")


def test_folders_of_links(trained, tmp_path):
    """A link belongs to its own folder if that says how its text was prepared, else if the target's does not."""
    _, runs = trained
    checkpoint = runs / "checkpoint_last.pt"
    (tmp_path / "links").mkdir()
    link = tmp_path / "links/last.pt"
    link.symlink_to(checkpoint)
    assert folder_of(link) == runs and folder_of(checkpoint) == runs
    (tmp_path / "links/dict.de.txt").touch()
    assert folder_of(link) == runs
    (runs / FILE).unlink()
    assert folder_of(link) == link.parent
    (tmp_path / "links/dict.de.txt").unlink()
    assert folder_of(link) == runs


def test_plain_data_keep_their_dictionaries_in_subfolders(tmp_path):
    data, runs = tmp_path / "bin", tmp_path / "runs"
    for name in ("input0", "label"):
        (data / name).mkdir(parents=True)
        (data / name / "dict.txt").write_text("a 2\nb 1\n")
    keep_with_checkpoints(data, runs)
    assert (runs / "label/dict.txt").read_text() == "a 2\nb 1\n"
    (data / "input0/dict.txt").write_text("a 9\nb 8\n")
    keep_with_checkpoints(data, runs)  # the symbols are the same
    assert (runs / "input0/dict.txt").read_text() == "a 2\nb 1\n"
    keep_with_checkpoints(data, data)
    keep_with_checkpoints(tmp_path / "gone", runs)


@pytest.mark.parametrize(
    "languages, level, symbols", [(("en", "de"), Characters(), "a ▁ b ▁ c"), ((), Bytes(), Bytes().encode(RAW))]
)
def test_bpe_prepared_squeezes_parallel_text_as_preparation_does(languages, level, symbols, tmp_path):
    PreparedText(Plain(), Plain(), level, *languages).save(tmp_path)
    encoder = PreparedEncoder(SimpleNamespace(prepared_text=None, data=str(tmp_path)))
    assert encoder.encode(RAW) == symbols
    assert encoder.decode(symbols) == ("a b c" if languages else RAW)
