"""Lines of text: strict reading, cleaning, and learning a byte pair encoding.

A function that works on a line takes and returns one line without its newline. These functions can be sent to other
processes.
"""

import html
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, redirect_stderr
from functools import partial
from itertools import chain, islice
from pathlib import Path

from subword_nmt.learn_bpe import learn_bpe
from tqdm import tqdm

from fairseq_plugins.files.compressed import Damaged, is_compressed, opened, plain_name
from fairseq_plugins.files.reading import parse_json
from fairseq_plugins.text.lines import squeeze
from lib.steps import UserError
from lib.workers import map_in_order

CHUNK = 200  # lines that a process gets at once


def read_lines(path: Path, ends: bool = False) -> Iterator[str]:
    """The lines of a UTF-8 file, uncompressed. Only a newline ends a line, so other separators of Unicode cannot shift
    the lines of a translation. A byte order mark at the beginning is left out.

    With ``ends`` lines include their newline, which the last line may lack.
    """
    number = 0
    try:
        with opened(path) as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text if ends else text.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 in line {number} ({error.reason}): convert it, for example with iconv."
        ) from None
    except Damaged as error:
        raise UserError(error.sentence(path, number)) from None
    if number == 0:
        raise UserError(f"{path} is empty: put the complete file there.")


def size(path: Path) -> int:
    """The number of bytes of a text, uncompressed."""
    if not is_compressed(path):
        return path.stat().st_size
    found = line = 0
    try:
        with opened(path) as file:
            for part in iter(partial(file.read1, 2**20), b""):  # read would lose the bytes before a fault
                found, line = found + len(part), line + part.count(b"\n")
    except Damaged as error:
        raise UserError(error.sentence(path, line)) from None
    return found


def read_sentences(path: Path) -> Iterator[str]:
    """The lines of plain text, or the segments of .sgm, .xml and IWSLT's train.tags files, with single spaces."""
    name = plain_name(path)
    lines = read_lines(path)
    if name.lower().endswith((".sgm", ".xml")):
        segments = (re.search(r"<seg[^>]*>(.*)</seg>", line) for line in lines)
        lines = (html.unescape(segment[1]) for segment in segments if segment)
    elif name.startswith("train.tags."):
        lines = (re.sub(r"</?(title|description)>", "", line) for line in lines)
        lines = (
            line for line in lines if not re.match(r"\s*<(url|talkid|keywords|speaker|reviewer|translator|doc|/)", line)
        )
    return map(squeeze, lines)


def read_pairs(one: Path, other: Path) -> Iterator[tuple[str, str]]:
    """The sentences of two files, side by side."""
    try:
        yield from zip(read_sentences(one), read_sentences(other), strict=True)
    except ValueError:
        ones, others = (sum(1 for _ in read_sentences(path)) for path in (one, other))
        raise UserError(
            f"{one} has {ones} lines but {other} has {others}: give two files with as many lines, where each line"
            " translates the line with its number in the other file."
        ) from None


def write_pairs(pairs: Iterable[tuple[int, Iterable[str]]], outputs: Sequence[Path]) -> Counter[int]:
    """Write pairs of lines into pairs of files. Returns how many each pair of files got.

    Args:
        pairs: each with the number of its files, 0 for the first two outputs
    """
    numbers = Counter()
    with ExitStack() as stack:
        files = [stack.enter_context(open(path, "w", encoding="utf-8", newline="\n")) for path in outputs]
        for number, pair in pairs:
            numbers[number] += 1
            for file, line in zip(files[2 * number :], pair):
                file.write(line + "\n")
    return numbers


def read_records(
    path: Path, fields: tuple[str, ...], first: int = 1, last: int | None = None, blank: bool = False
) -> Iterator[dict]:
    """The JSON objects in lines ``first`` to ``last`` (counted from 1, both included), one per line."""
    for number, line in enumerate(islice(read_lines(path), first - 1, last), first):
        if blank and not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError as error:
            raise UserError(
                f"{path} holds no JSON in line {number} ({error}): write one JSON object per line."
            ) from None
        for field in fields:
            if not isinstance(record, dict) or not isinstance(record.get(field), str):
                raise UserError(f"{path} has no text field '{field}' in line {number}: expected {', '.join(fields)}.")
        yield record


def write_lines(path: Path, lines) -> int:
    number = 0
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(lines, 1):
            file.write(line + "\n")
    return number


def learn_codes(texts: list[Path], codes: Path, number: int, counted: str = "merges") -> str:
    """Learn a joint byte pair encoding of all ``texts``, with ``number`` merges or ``number`` symbols. Symbols are
    merges and characters; a character at the end of a word is a symbol of its own."""
    learned = learn_merges((line for path in texts for line in read_lines(path)), codes, number, counted)
    if not learned:
        way_out = "more than" if counted == "symbols" else "--bpe sentencepiece instead of"
        raise UserError(
            f"no pair of symbols of {' and '.join(map(str, texts))} could be merged: give more text, or {way_out} --bpe"
            f" {number}."
        )
    return f"{number} {counted} requested, {learned} merges learned from {', '.join(path.name for path in texts)}"


def learn_merges(lines: Iterable[str], codes: Path, number: int, counted: str) -> int:
    """Learn a byte pair encoding of ``number`` merges or ``number`` symbols. Returns the number of merges; with none of
    them, the codes cannot be used."""
    # it prints a bar that need not reach its end, and numbers without a name
    with open(codes, "w", encoding="utf-8") as out, redirect_stderr(io.StringIO()):
        try:
            learn_bpe(lines, out, number, total_symbols=counted == "symbols")
        except ValueError as error:
            if "max()" not in str(error):  # no word has two characters
                raise
    return sum(1 for _ in read_lines(codes)) - 1


def map_lines(function, source: Path, destination: Path, workers: int) -> int:
    """Write ``function(line)`` for every line, in order. Returns the number of lines."""
    function("")  # its files are then loaded in the workers, too, which are forks of this process
    lines = read_lines(source)
    chunks = iter(lambda: list(islice(lines, CHUNK)), [])
    done = chain.from_iterable(map_in_order(partial(_map_chunk, function), chunks, workers))
    return write_lines(destination, tqdm(done, desc=source.name, unit=" lines", disable=None))


def _map_chunk(function, lines: list[str]) -> list[str]:
    return list(map(function, lines))


def clean(pairs, lengths, max_words: int, max_ratio: float | None, dropped: Counter) -> Iterator[tuple[str, str]]:
    """The pairs of 1 to ``max_words`` words whose lengths have at most the ratio ``max_ratio``. Counts dropped pairs.

    Args:
        lengths: for the two sides, a function from a line to its number of words
    """
    for pair in pairs:
        short, long = sorted(length(line) for length, line in zip(lengths, pair))
        if short == 0:
            dropped["empty"] += 1
        elif long > max_words:
            dropped[f"longer than --max-words {max_words}"] += 1
        elif max_ratio and long > max_ratio * short:
            dropped[f"more unequal than --max-ratio {max_ratio:g}"] += 1
        else:
            yield pair
