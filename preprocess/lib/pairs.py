"""Pairs of sentences that are not split yet: two files, or one file of pairs, become train, valid and test.

    corpus.en corpus.fr     two files, one sentence per line
    corpus.tsv              two columns, source and target; or columns with a first row that names them, en and fr
    corpus.jsonl            {"en": "...", "fr": "..."} in each line, or {"translation": {"en": "...", "fr": "..."}}
    memory.tmx              a translation memory
    corpus.zip              as OPUS gives it: two files in it, NAME.en and NAME.fr

Each may be compressed: .gz, .bz2, .xz or .zst. No source sentence is in two splits, so no pair is. The sentence itself
decides on its split, so the same files are split in the same way again, and pairs that are added move few others.
"""

import hashlib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from fairseq_plugins.files.compressed import Damaged, opened, plain_name
from fairseq_plugins.text.lines import squeeze
from lib import raw_text
from lib.steps import UserError

SHARE, MOST = 0.05, 2000
Pairs = Iterator[tuple[str, str]]
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
CODES = {"bpt", "ept", "ph", "it", "ut"}  # elements of TMX that hold formatting of another program, and no text


class Size(NamedTuple):
    """How many pairs a split gets: a number, or a share of all; by default a share, but at most MOST pairs."""

    pairs: int | None = None
    share: float | None = None

    def of(self, total: int) -> int:
        if self.pairs is not None:
            return self.pairs
        return round(self.share * total) if self.share is not None else min(MOST, round(SHARE * total))


def reader(paths: list[Path], source: str, target: str) -> Callable[[], Pairs]:
    """A function that reads the pairs of one or two files.

    Raises:
        UserError: no file of pairs has such a name
    """
    if len(paths) == 2:
        ones, others = sorted(paths, key=lambda path: _language(path) == target)  # as given, if no ending says more
        return lambda: _two_files(ones, others)
    path = paths[0]
    kind = Path(plain_name(path)).suffix.lower()
    if kind not in READERS:
        raise UserError(
            f"--raw {path} is no file of pairs: name two files, for example corpus.{source} and corpus.{target}, or one"
            " that ends in .tsv, .jsonl, .tmx or .zip."
        )
    return lambda: READERS[kind](path, source, target)


def split(read: Callable[[], Pairs], valid: Size, test: Size, *outputs: Path) -> str:
    """Write the pairs of each split, in their order.

    Args:
        read: gives the pairs; it is called twice
        outputs: the source and target file of train, valid and test
    """
    keys = np.fromiter((_key(source) for source, _ in read()), np.uint64)
    counts = [size.of(len(keys)) for size in (test, valid)]
    if sum(counts) >= len(keys) or not all(counts):
        raise UserError(
            f"{len(keys)} pairs cannot be split into {counts[1]} for valid, {counts[0]} for test and some for train:"
            " give more pairs, or other numbers with --valid-pairs and --test-pairs."
        )
    borders = np.partition(keys, np.array([counts[0] - 1, sum(counts) - 1]))[[counts[0] - 1, sum(counts) - 1]]
    places = np.array([4, 2, 0])[np.searchsorted(borders, keys)]  # the first output of each pair's split
    if not (places == 0).any():
        raise UserError("nothing is left for train, since most source sentences are the same: give more pairs.")
    with ExitStack() as stack:
        files = [stack.enter_context(open(path, "w", encoding="utf-8", newline="\n")) for path in outputs]
        for place, pair in zip(places, read(), strict=True):
            for file, line in zip(files[place:], pair):
                file.write(line + "\n")
    sizes = {name: int((places == 2 * number).sum()) for number, name in enumerate(("train", "valid", "test"))}
    return f"{len(keys)} pairs in; {', '.join(f'{name} {size}' for name, size in sizes.items())} pairs out"


def _key(source: str) -> int:
    return int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest())


def _language(path: Path) -> str:
    return Path(plain_name(path)).suffix.removeprefix(".")


def _two_files(ones: Path, others: Path) -> Pairs:
    try:
        yield from zip(raw_text.read_sentences(ones), raw_text.read_sentences(others), strict=True)
    except ValueError:
        counts = [sum(1 for _ in raw_text.read_lines(path)) for path in (ones, others)]
        raise UserError(
            f"{ones} has {counts[0]} lines but {others} has {counts[1]}: give two files with as many lines, where each"
            " line translates the line with its number in the other file."
        ) from None


def _columns(path: Path, source: str, target: str) -> Pairs:
    places = (0, 1)
    for number, line in enumerate(raw_text.read_lines(path), 1):
        fields = line.split("\t")
        if number == 1 and {source, target} <= set(fields):
            places = (fields.index(source), fields.index(target))
            continue
        if len(fields) <= max(places):
            raise UserError(
                f"{path} has {len(fields)} columns in line {number}: put a tab between source and target, and none in"
                " them."
            )
        yield squeeze(fields[places[0]]), squeeze(fields[places[1]])


def _objects(path: Path, source: str, target: str) -> Pairs:
    for number, record in enumerate(raw_text.read_records(path, ()), 1):
        pair = record.get("translation", record) if isinstance(record, dict) else None
        texts = [pair.get(language) for language in (source, target)] if isinstance(pair, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f'{path} has no texts "{source}" and "{target}" in line {number}: name them in each line.')
        yield squeeze(texts[0]), squeeze(texts[1])


def _memory(path: Path, source: str, target: str) -> Pairs:
    """The units of a translation memory that have both languages; en is also en-GB and en_us."""
    found = False
    try:
        with opened(path) as file:
            for _, unit in ElementTree.iterparse(file):
                if unit.tag.rpartition("}")[2] != "tu":
                    continue
                texts = {}
                for variant in unit.iter():
                    language = variant.get(LANGUAGE) or variant.get("lang") or ""
                    segment = next((part for part in variant if part.tag.rpartition("}")[2] == "seg"), None)
                    if segment is not None:
                        texts.setdefault(language.lower().replace("_", "-").partition("-")[0], _text(segment))
                unit.clear()
                if source in texts and target in texts:
                    found = True
                    yield squeeze(texts[source]), squeeze(texts[target])
    except ElementTree.ParseError as error:
        raise UserError(f"{path} is no XML from line {error.position[0]} on ({error}): get it again.") from None
    except Damaged as error:
        raise UserError(f"{path} is damaged ({error}): get it again.") from None
    if not found:
        raise UserError(f"{path} has no unit in '{source}' and '{target}': name its languages.")


def _text(element: ElementTree.Element) -> str:
    """The text of a segment without the codes of formatting in it."""
    name = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else "ph"  # a comment has no name
    inner = "" if name in CODES else (element.text or "") + "".join(_text(part) + (part.tail or "") for part in element)
    return inner


def _archive(path: Path, source: str, target: str) -> Pairs:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.rpartition(".")[2]: name for name in archive.namelist() if not name.endswith("/")}
            if not {source, target} <= names.keys():
                raise UserError(
                    f"{path} has no two files that end in .{source} and .{target}: take the Moses form of the corpus."
                )
            with archive.open(names[source]) as ones, archive.open(names[target]) as others:
                for number, pair in enumerate(zip(ones, others, strict=True), 1):
                    texts = [line.decode("utf-8-sig" if number == 1 else "utf-8") for line in pair]
                    yield squeeze(texts[0]), squeeze(texts[1])
    except (zipfile.BadZipFile, EOFError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"{path} is damaged, or its files have not as many lines ({error}): get it again.") from None


READERS = {".tsv": _columns, ".jsonl": _objects, ".json": _objects, ".tmx": _memory, ".zip": _archive}
