"""Pairs of sentences that are not split yet: two files, or one file of pairs, become train, valid and test.

    corpus.en corpus.fr     two files, one sentence per line
    corpus.tsv              two columns, source and target; or columns with a first row that names them, en and fr
    corpus.jsonl            {"en": "...", "fr": "..."} in each line, or {"translation": {"en": "...", "fr": "..."}}
    memory.tmx              a translation memory
    corpus.zip              as OPUS gives it: two files in it, NAME.en and NAME.fr

Each may be compressed: .gz, .bz2, .xz or .zst. Quotation marks of a .tsv file are text, unless all are a spreadsheet's:
"a ""b"" c" is then a "b" c. No source sentence is in two splits, so no pair is. The sentence itself
decides on its split, so the same files are split in the same way again, and pairs that are added move few others.
"""

import hashlib
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from fairseq_plugins.files.compressed import Damaged, opened, plain_name
from fairseq_plugins.text.lines import squeeze
from lib import raw_text
from lib.steps import UserError

SHARE, MOST = 0.05, 2000
Pairs = Iterator[tuple[str, str]]
CELL = re.compile(r'\t("[^"]*(?:""[^"]*)*"|[^\t"]*)')  # of a spreadsheet; it may have tabs between quotation marks
QUOTED_LINE = re.compile(f"(?:{CELL.pattern})*")
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
        UserError: the files are not there, or are none of pairs by their names or number
    """
    for path in paths:
        if not path.is_file():
            raise UserError(f"--raw {path} is no file: name files of pairs, or one folder with train, valid and test.")
    kinds = [Path(plain_name(path)).suffix.lower() for path in paths]
    if len(paths) == 1 and kinds[0] in READERS:
        return lambda: READERS[kinds[0]](paths[0], source, target)
    if len(paths) != 2 or set(kinds) & set(READERS):
        raise UserError(
            f"--raw {' '.join(map(str, paths))} are no pairs: name two files of lines, such as corpus.{source} and"
            f" corpus.{target}, or one file that ends in .tsv, .jsonl, .tmx or .zip."
        )
    ones, others = paths
    if _has(ones, target) and _has(others, source) and not (_has(ones, source) and _has(others, target)):
        ones, others = others, ones
    return lambda: raw_text.read_pairs(ones, others)


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
            " give more pairs, or other sizes with --valid-pairs or --valid-share, --test-pairs or --test-share."
        )
    borders = np.partition(keys, np.array([counts[0] - 1, sum(counts) - 1]))[[counts[0] - 1, sum(counts) - 1]]
    places = 2 - np.searchsorted(borders, keys)  # 0 for train, 1 for valid, 2 for test
    sizes = {name: int((places == place).sum()) for place, name in enumerate(("train", "valid", "test"))}
    if not all(sizes.values()):
        raise UserError(
            f"{', '.join(name for name, size in sizes.items() if not size)} would be empty, since many pairs have the"
            " same source sentence, and these stay together: give more pairs, or other sizes."
        )
    raw_text.write_pairs(zip(places.tolist(), read(), strict=True), outputs)
    return f"{len(keys)} pairs in; {', '.join(f'{name} {size}' for name, size in sizes.items())} pairs out"


def _key(source: str) -> int:
    return int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest())


def _has(path: Path, language: str) -> bool:
    """Whether a part of the file's name is the language, in whatever case."""
    return language.lower() in plain_name(path).lower().split(".")[1:]


def _columns(path: Path, source: str, target: str) -> Pairs:
    places, width, cells = (0, 1), 2, _quoted_cells if _of_a_spreadsheet(path) else _cells
    for number, line in enumerate(raw_text.read_lines(path), 1):
        if not line.strip():
            continue
        fields = cells(line)
        if number == 1 and (named := _header(path, fields, source, target)):
            places, width = named, len(fields)
            continue
        if len(fields) != width:
            raise UserError(
                f"{path} has {len(fields)} columns in line {number}, not {width}: put a tab between source and target,"
                f" and none in them; or name the columns in the first row, {source} and {target} among them."
            )
        yield squeeze(fields[places[0]]), squeeze(fields[places[1]])


def _cells(line: str) -> list[str]:
    return line.split("\t")


def _quoted_cells(line: str) -> list[str]:
    found = CELL.findall("\t" + line)
    return [cell[1:-1].replace('""', '"') if cell.startswith('"') else cell for cell in found]


def _of_a_spreadsheet(path: Path) -> bool:
    """Whether all quotation marks in a file are those of a spreadsheet: it puts a cell that has one between two more,
    and doubles those in it. A single cell with other marks, as in written text, says that all of them are text, and so
    does a file in which none is doubled."""
    doubled = False
    for line in raw_text.read_lines(path):
        if '"' in line:
            if not QUOTED_LINE.fullmatch("\t" + line):
                return False
            doubled = doubled or any('"' in cell for cell in _quoted_cells(line))
    return doubled


def _header(path: Path, fields: list[str], source: str, target: str) -> tuple[int, int] | None:
    """The places of the columns if the first row names the languages, in whatever case or region, as FR or fr-FR."""
    names = [_code(field.strip(' "')) for field in fields]
    found = [_place(names, _code(language)) for language in (source, target)]
    if None in found or found[0] == found[1]:
        return None
    if any(field.startswith('"') for field in fields):
        raise UserError(f"{path} has quotation marks around its columns: save it as plain text with tabs.")
    return found[0], found[1]


def _place(names: list[str], language: str) -> int | None:
    """The place of the language among the names, or else of the same one in another region."""
    same = [place for place, name in enumerate(names) if name == language]
    near = [place for place, name in enumerate(names) if name.partition("-")[0] == language.partition("-")[0]]
    return (same or near or [None])[0]


def _code(language: str) -> str:
    """A language without the ways of writing it: zh_CN -> zh-cn"""
    return language.lower().replace("_", "-")


def _objects(path: Path, source: str, target: str) -> Pairs:
    for number, record in enumerate(raw_text.read_records(path, (), blank=True), 1):
        pair = record.get("translation", record) if isinstance(record, dict) else None
        texts = [pair.get(language) for language in (source, target)] if isinstance(pair, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f'{path} has no texts "{source}" and "{target}" in line {number}: name them in each line.')
        if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
            raise UserError(f"{path} has half a character (a surrogate) in line {number}: correct or remove the line.")
        yield squeeze(texts[0]), squeeze(texts[1])


def _memory(path: Path, source: str, target: str) -> Pairs:
    """The units of a translation memory that have both languages."""
    units, number, languages = 0, 0, set()
    try:
        with opened(path) as file:
            before_faults = SimpleNamespace(read=file.read1)  # read would lose what is before a fault
            for _, unit in ElementTree.iterparse(before_faults):
                if _name(unit) != "tu":
                    continue
                units += 1
                texts = {}
                for variant in unit:
                    segment = next((part for part in variant if _name(part) == "seg"), None)
                    if segment is not None:
                        language = variant.get(LANGUAGE) or variant.get("lang") or ""
                        texts.setdefault(_code(language), _text(segment))
                unit.clear()
                languages |= texts.keys()
                pair = [_in(texts, language, path) for language in (source, target)]
                if None not in pair:
                    number += 1
                    yield squeeze(pair[0]), squeeze(pair[1])
    except ElementTree.ParseError as error:
        raise UserError(f"{path} is no XML from line {error.position[0]} on ({error}): get it again.") from None
    except Damaged as error:
        raise UserError(f"{path} is damaged after {units} units ({error}): get it again.") from None
    except UserError:
        raise
    except (ValueError, LookupError, RecursionError) as error:  # an encoding that nobody knows; elements in elements
        raise UserError(f"{path} cannot be read ({error}): save it in UTF-8, without nested formatting.") from None
    if not number:
        found = ", ".join(sorted(languages)) or "none"
        raise UserError(
            f"{path} has no unit in '{source}' and '{target}'; its languages are {found}: give two of them."
        )


def _in(texts: dict[str, str], language: str, path: Path) -> str | None:
    """The text in this language; for one without a region such as zh, that of zh-CN, if there is no other zh."""
    code = _code(language)
    if code in texts:
        return texts[code]
    near = [other for other in texts if other.partition("-")[0] == code]
    if len(near) > 1:
        raise UserError(
            f"{path} has {' and '.join(sorted(near))} beside each other for '{language}': give one of them."
        )
    return texts[near[0]] if near else None


def _name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace; a comment has none."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else "ph"


def _text(element: ElementTree.Element) -> str:
    """The text of a segment without the codes of formatting in it."""
    if _name(element) in CODES:
        return ""
    return (element.text or "") + "".join(_text(part) + (part.tail or "") for part in element)


def _archive(path: Path, source: str, target: str) -> Pairs:
    number = 0
    try:
        with zipfile.ZipFile(path) as archive:
            found = [_only(path, archive, language) for language in (source, target)]
            with archive.open(found[0]) as ones, archive.open(found[1]) as others:
                for number, pair in enumerate(zip_longest(ones, others), 1):
                    if None in pair:
                        raise UserError(f"{path}: {found[0]} and {found[1]} have not as many lines: get it again.")
                    texts = [line.decode("utf-8-sig" if number == 1 else "utf-8") for line in pair]
                    yield squeeze(texts[0]), squeeze(texts[1])
    except UnicodeDecodeError as error:
        raise UserError(f"{path} has text that is not UTF-8 in line {number} ({error.reason}): convert it.") from None
    except UNREADABLE as error:
        where = f" after line {number}" if number else ""
        raise UserError(f"{path} cannot be unpacked{where} ({error}): get it again, or unpack it yourself.") from None


def _only(path: Path, archive: zipfile.ZipFile, language: str) -> str:
    """The file of this language in the archive; those that a Mac adds do not count."""
    names = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
    end = f".{language}".lower()
    names = [name for name in names if name.lower().endswith(end) and not Path(name).name.startswith(".")]
    if len(names) == 1:
        return names[0]
    raise UserError(
        f"{path} has {len(names) or 'no'} files that end in .{language}: take an archive with one for each language, as"
        " OPUS gives in Moses form, or unpack it and name two files."
    )


# RuntimeError: it has a password
UNREADABLE = (zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError, zlib.error, lzma.LZMAError)
READERS = {".tsv": _columns, ".jsonl": _objects, ".json": _objects, ".tmx": _memory, ".zip": _archive}
