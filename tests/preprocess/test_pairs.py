"""Pairs that are not split yet: files of every kind, compressed in every way, and their splits."""

import bz2
import csv
import gzip
import json
import lzma
import random
import zipfile
from collections import Counter
from functools import partial
from xml.sax.saxutils import escape

import pytest
from lib import locate, pairs, raw_text

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.compressed import plain_name, zstd
from fairseq_plugins.text.reading import read_text

PAIRS = [(f"Satz « {number} & {number % 7} »", f"sentence\u202f{number} & “{number % 7}”") for number in range(200)]


def lines(rows):
    return "".join(f"{row}\n" for row in rows)


def memory(rows):
    """As translators' tools write it, with codes of formatting and a unit that lacks a language."""
    units = "".join(
        f'<tu><tuv xml:lang="DE-de"><seg>{escape(one)}<ph x="1">&lt;br/&gt;</ph></seg></tuv>'
        f'<tuv xml:lang="en"><seg><hi>{escape(other)}</hi></seg></tuv></tu>\n'
        for one, other in rows
    )
    return f'<tmx version="1.4"><header/><body><tu><tuv xml:lang="de"><seg>x</seg></tuv></tu>\n{units}</body></tmx>'


FILES = {
    "two.tsv": lines(map("\t".join, PAIRS)),
    "named.tsv": lines(["id\ten\tde", *(f"{number}\t{en}\t{de}" for number, (de, en) in enumerate(PAIRS))]),
    "flat.jsonl": lines(json.dumps({"de": de, "en": en}) for de, en in PAIRS),
    "nested.jsonl": lines(json.dumps({"translation": {"de": de, "en": en}}) for de, en in PAIRS),
    "memory.tmx": memory(PAIRS),
}
SMALL_BLOCKS = partial(bz2.compress, compresslevel=1)
COMPRESS = {".gz": gzip.compress, ".bz2": SMALL_BLOCKS, ".xz": lzma.compress, ".zst": zstd.compress}


@pytest.mark.parametrize(
    "name, ending", [*((name, "") for name in FILES), *(("two.tsv", ending) for ending in COMPRESS)]
)
def test_files_of_pairs(name, ending, tmp_path):
    path = tmp_path / f"{name}{ending}"
    path.write_bytes(COMPRESS.get(ending, bytes)(FILES[name].encode()))
    assert list(pairs.reader([path], "de", "en")()) == PAIRS


def corpus(folder, name):
    """English and German sentences in files of their own."""
    files = [folder / name.format(language) for language in ("en", "de")]
    for file, side in zip(files, (1, 0)):
        file.write_text(lines(pair[side] for pair in PAIRS))
    return files


def test_two_files_and_the_archive_of_a_corpus(tmp_path):
    files = corpus(tmp_path, "corpus.{}")
    with zipfile.ZipFile(tmp_path / "corpus.zip", "w") as archive:
        archive.writestr("README", "a corpus")
        for file in files:
            archive.write(file, file.name)
    for given in (files, files[::-1], [tmp_path / "corpus.zip"]):
        assert list(pairs.reader(given, "de", "en")()) == PAIRS


def test_columns_and_languages_are_found_by_any_way_of_writing_them(tmp_path):
    rows = "".join(f"{en}\t{de}\n" for de, en in PAIRS)
    for header in ("EN\tDE", "en-GB\tde_DE", "en \t de"):
        (tmp_path / "a.tsv").write_text(f"{header}\n{rows}\n")
        assert list(pairs.reader([tmp_path / "a.tsv"], "de", "en")()) == PAIRS
    (tmp_path / "a.tmx").write_text(memory(PAIRS))
    for languages in (("de", "EN"), ("de-DE", "en"), ("DE_de", "en")):
        assert list(pairs.reader([tmp_path / "a.tmx"], *languages)()) == PAIRS
    assert list(pairs.reader(corpus(tmp_path, "all.{}.txt"), "de", "en")()) == PAIRS


def test_cells_of_a_spreadsheet_lose_its_quotation_marks(tmp_path):
    rows = [*PAIRS, ('"Ja", sagte er', 'He said "yes"'), ("eins, zwei", '"'), ("", "x"), ("tab\there", "a b")]
    for header in ([], [("de", "en")]):
        with open(tmp_path / "sheet.tsv", "w", newline="") as file:
            csv.writer(file, "excel-tab").writerows([*header, *rows])
        read = list(pairs.reader([tmp_path / "sheet.tsv"], "de", "en")())
        assert read == [*rows[:-1], ("tab here", "a b")]


@pytest.mark.parametrize("other", ['"Ja", sagte er\t"Yes", he said', 'zwei "\tx', '"x"y\tz'])
def test_quotation_marks_of_a_text_stay(other, tmp_path):
    """Also those that look like a spreadsheet's, if there are others; and cells between marks without any in them."""
    rows = ['"Ja, nein."\t"Yes, no."', other, '""" Doc. """\t"a ""b"" c"']
    for kept in (rows, rows[:1]):
        (tmp_path / "text.tsv").write_text(lines(kept))
        assert list(pairs.reader([tmp_path / "text.tsv"], "de", "en")()) == [tuple(row.split("\t")) for row in kept]


def test_endings_in_capitals_are_those_in_small_letters(tmp_path):
    capitals = tmp_path / "CAPITALS"
    capitals.mkdir()
    for name, content in FILES.items():
        (capitals / name.upper()).write_text(content)
        (capitals / f"{name.upper()}.GZ").write_bytes(gzip.compress(content.encode()))
    with zipfile.ZipFile(capitals / "CORPUS.ZIP", "w") as archive:
        for file in corpus(capitals, "CORPUS.{}"):
            archive.write(file, file.name.upper())
    for path in capitals.glob("*.*"):
        if path.suffix not in (".en", ".de"):
            assert list(pairs.reader([path], "de", "en")()) == PAIRS
    files = [file.rename(file.with_name(file.name.upper())) for file in corpus(capitals, "CORPUS.{}")]
    assert list(pairs.reader(files, "de", "en")()) == PAIRS
    assert locate.file(capitals, "TWO.TSV") == capitals / "TWO.TSV"
    (capitals / "TWO.TSV").unlink()
    assert locate.file(capitals, "TWO.TSV") == capitals / "TWO.TSV.GZ"
    assert plain_name(capitals / "TWO.TSV.GZ") == "TWO.TSV"
    assert raw_text.size(capitals / "TWO.TSV.GZ") == len(FILES["two.tsv"].encode())


def test_archives_that_do_not_say_which_files_they_mean(tmp_path):
    with zipfile.ZipFile(tmp_path / "mac.zip", "w") as archive:
        for name in ("x/a.de", "x/a.en", "__MACOSX/x/._a.en"):
            archive.writestr(name, "one\n")
    assert list(pairs.reader([tmp_path / "mac.zip"], "de", "en")()) == [("one", "one")]
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        for name in ("a.de", "a.en", "b.en"):
            archive.writestr(name, "one\n")
    with pytest.raises(UserError, match="has 2 files that end in .en"):
        list(pairs.reader([tmp_path / "two.zip"], "de", "en")())


WRONG = {
    "three.tsv": ("1\tx\ty\n", "has 3 columns in line 1, not 2"),
    "quoted.tsv": ('"en"\t"de"\n"x"\t"y"\n', "has quotation marks around its columns"),
    "c.jsonl": ('{"de": "\\ud800", "en": "x"}\n', "half a character"),
    "regions.tmx": (
        '<tmx><body><tu><tuv lang="de-AT"><seg>x</seg></tuv><tuv lang="de-CH"><seg>y</seg></tuv></tu></body></tmx>',
        "has de-at and de-ch beside each other for 'de'",
    ),
    "a.de.tmx": ('<tmx><body><tu><tuv lang="fr"><seg>x</seg></tuv></tu></body></tmx>', "its languages are fr"),
    "a.txt": ("x\n", "are no pairs"),
    "a.tsv": ("x\ty\nx y\n", "has 1 columns in line 2, not 2"),
    "a.jsonl": ('{"de": "x"}\n', 'has no texts "de" and "en" in line 1'),
    "b.jsonl": ("[1]\n", 'has no texts "de" and "en" in line 1'),
    "a.tmx": ("<tmx>\n<body>", "is no XML from line 2 on"),
    "b.tmx": ("<tmx><body/></tmx>", "has no unit in 'de' and 'en'"),
    "a.zip": ("no archive", "cannot be unpacked"),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_files_are_refused(name, tmp_path):
    content, sentence = WRONG[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=sentence):
        list(pairs.reader([tmp_path / name], "de", "en")())


@pytest.mark.parametrize("ending", COMPRESS)
def test_a_cut_file_is_named_with_the_line_where_it_ends(ending, tmp_path):
    whole = COMPRESS[ending](lines(random.Random(1).sample(range(10**9), 40_000)).encode())
    (path := tmp_path / f"corpus.en{ending}").write_bytes(whole[: len(whole) * 9 // 10])
    number = 0
    with pytest.raises(UserError) as said:
        for _ in raw_text.read_lines(path):
            number += 1
    assert 20_000 < number < 40_000 and f"corpus.en{ending} is damaged after line {number} (" in str(said.value)
    for read in (raw_text.size, lambda path: list(read_text(path))):
        with pytest.raises(UserError, match=f"is damaged after line {number} "):
            read(path)


def test_a_cut_file_of_a_single_block_has_no_line_to_read(tmp_path):
    (tmp_path / "text.zst").write_bytes(zstd.compress(b"one line\n" * 99)[:-1])
    with pytest.raises(UserError, match="is damaged so that no line of it can be read"):
        list(raw_text.read_lines(tmp_path / "text.zst"))


def test_damage_in_a_memory_and_in_an_archive_has_its_place(tmp_path):
    (tmp_path / "a.tmx.gz").write_bytes(gzip.compress(memory(PAIRS).encode())[:-9])
    with pytest.raises(UserError, match="a.tmx.gz is damaged after 201 units"):
        list(pairs.reader([tmp_path / "a.tmx.gz"], "de", "en")())
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for file in corpus(tmp_path, "corpus.{}"):
            archive.writestr(file.name, 20 * file.read_text())
    content = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(content.replace(b"& 4 \xc2\xbb", b"& 5 \xc2\xbb"))
    with pytest.raises(UserError, match=r"a.zip cannot be unpacked after line 3\d{3} .Bad CRC-32"):
        list(pairs.reader([tmp_path / "a.zip"], "de", "en")())


DEFAULT = pairs.Size()


def split(rows, tmp_path, valid=DEFAULT, test=DEFAULT):
    outputs = [tmp_path / f"{name}.{side}" for name in ("train", "valid", "test") for side in ("de", "en")]
    pairs.split(lambda: iter(rows), valid, test, *outputs)
    texts = [path.read_text().splitlines() for path in outputs]
    return [list(zip(texts[number], texts[number + 1])) for number in (0, 2, 4)]


def test_every_pair_is_in_one_split_and_stays_there(tmp_path):
    train, valid, test = split(PAIRS, tmp_path)
    assert Counter(train + valid + test) == Counter(PAIRS)
    assert (len(valid), len(test)) == (10, 10)
    again = split(PAIRS[::-1], tmp_path)
    assert [set(part) for part in again] == [set(part) for part in (train, valid, test)]


def test_a_source_sentence_is_in_one_split_only(tmp_path):
    rows = PAIRS + [(source, f"{target}!") for source, target in PAIRS]
    parts = split(rows, tmp_path, pairs.Size(pairs=30), pairs.Size(share=0.2))
    sources = [{source for source, _ in part} for part in parts]
    assert sum(map(len, sources)) == len(PAIRS) and [len(part) for part in parts] == [290, 30, 80]


def test_sentences_that_are_always_the_same_leave_nothing_for_a_split(tmp_path):
    with pytest.raises(UserError, match="valid would be empty, since many pairs have the same source"):
        split([("Yes.", str(number)) for number in range(100)] + PAIRS[:60], tmp_path, pairs.Size(40), pairs.Size(40))


def test_several_files_are_two_of_lines(tmp_path):
    for names in (["a.tsv", "b.tsv"], ["a.en"], ["a.en", "b.en", "c.en"]):
        for name in names:
            (tmp_path / name).touch()
        with pytest.raises(UserError, match="are no pairs: name two files of lines"):
            pairs.reader([tmp_path / name for name in names], "de", "en")
    with pytest.raises(UserError, match="lost.tsv is no file"):
        pairs.reader([tmp_path / "lost.tsv"], "de", "en")


@pytest.mark.parametrize("valid, test", [(200, 1), (0, 5), (150, 50)])
def test_a_split_cannot_be_empty(valid, test, tmp_path):
    with pytest.raises(UserError, match="200 pairs cannot be split into"):
        split(PAIRS, tmp_path, pairs.Size(valid), pairs.Size(test))
