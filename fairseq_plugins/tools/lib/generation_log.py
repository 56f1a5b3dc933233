"""Read the output of fairseq-generate: shared by the tools that score it."""

import re
import unicodedata
from html import unescape
from pathlib import Path
from typing import NamedTuple

import regex

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import regular
from fairseq_plugins.text.languages import has_spaces
from fairseq_plugins.text.levels import SentencePieces
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Moses

LINE = re.compile(r"([STHD])-(\d{1,9})\t(.*)")
PIECE = re.compile(r"(^| )▁|@@( |$)")
# A mark behind a word, as Moses leaves none but full stops of abbreviations and apostrophes; and a mark between spaces
ATTACHED = regex.compile(r"[\p{L}\p{M}\p{N}][^\P{Po}.'՛՜՞](\s|$)|\p{L}{2}\.$")
APART = regex.compile(r"\s[^\P{Po}'](\s|$)")
NEITHER_LETTER_NOR_DIGIT = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


class Example(NamedTuple):
    """
    Attributes:
        source, target, hypothesis: tokens between spaces, or raw text
        raw: are target and hypothesis raw text?
    """

    source: str
    target: str
    hypothesis: str
    raw: bool = False


def read_generation(path: Path, text: PreparedText | None = None) -> list[Example]:
    """The best hypothesis for each sentence, with its source and reference, in the order of the data. They are raw text
    if fairseq-generate brought them back (--bpe prepared), if ``text`` says that raw text was only split into pieces,
    or if the references are no Moses tokens. Otherwise they are tokens.

    Args:
        text: how the data was prepared; it joins pieces that fairseq-generate has not joined

    Raises:
        UserError: the output is truncated, lacks sentences, has some twice, or holds pieces of words
    """
    sources, targets, hypotheses, brought_back = _parts(path)
    # fairseq-generate brings back references as it brings back the hypotheses of its D- lines
    raw = bool(brought_back) and brought_back != hypotheses
    if raw:
        hypotheses = brought_back
    elif piece := next(filter(None, map(PIECE.search, hypotheses.values())), None):
        if not text:
            raise UserError(f"{path} holds words in pieces ('{piece[0].strip()}'): {_way_to_join(piece[0])}.")
        raw = not isinstance(text.target, Moses)
        sources, targets, hypotheses = (
            {number: text.level.decode(symbols) for number, symbols in part.items()}
            for part in (sources, targets, hypotheses)
        )
    else:  # --remove-bpe may have joined pieces of raw text, and bad hypotheses may be the same as raw text and tokens
        raw = is_raw([*targets.values()]) if text is None else isinstance(text.level, SentencePieces)
    return [Example(sources.get(i, ""), targets[i], hypotheses[i], raw) for i in range(len(hypotheses))]


def _parts(path: Path) -> list[dict[int, str]]:
    """The sources, references, hypotheses and D- lines of an output, by the numbers of their sentences."""
    parts: dict[str, dict[int, str]] = {"S": {}, "T": {}, "H": {}, "D": {}}
    whole = False
    for line in read_text(path):
        if match := LINE.fullmatch(line):
            kind, number, content = match.groups()
            if kind in "ST" and int(number) in parts[kind]:
                raise UserError(f"{path} has sentence {number} twice; give the output of one run of fairseq-generate.")
            # --nbest prints the best hypothesis first
            parts[kind].setdefault(int(number), content.partition("\t")[2] if kind in "HD" else content)
        whole = whole or line.startswith("Generate ")
    if not whole:
        raise UserError(
            f"{path} lacks the last line of fairseq-generate, so it may be truncated: run fairseq-generate again."
        )
    if not parts["H"]:
        raise UserError(f"{path} has no sentences; give the output of fairseq-generate without --quiet.")
    numbers = set(range(len(parts["H"])))
    if not (parts["H"].keys() == parts["T"].keys() == numbers and parts["D"].keys() in (numbers, set())):
        raise UserError(
            f"{path} holds {len(parts['H'])} hypotheses and {len(parts['T'])} references, numbered up to "
            f"{max(parts['H'])}: generate without --num-shards and --skip-invalid-size-inputs-valid-test, and"
            " without --user-dir with --required-batch-size-multiple 1."
        )
    return list(parts.values())


def _way_to_join(piece: str) -> str:
    if "@@" in piece:
        return "generate with --remove-bpe for tokens, or with --bpe prepared for raw text"
    return "generate with --bpe prepared, or with --remove-bpe sentencepiece; plain --remove-bpe joins only '@@ '"


def is_raw(lines: list[str]) -> bool:
    """Are these lines raw text, and no Moses tokens? Yes if in most lines with marks these stand directly behind words.
    Without marks, only a language without spaces between words is known to have no Moses tokens."""
    plain = [*map(unescape, lines)]
    others = [line for line in plain if not ATTACHED.search(line)]
    attached, apart = len(plain) - len(others), sum(bool(APART.search(line)) for line in others)
    return attached > apart if attached or apart else not has_spaces(plain)


def refuse_other_test_set(path: Path, examples: list[Example], other: Path, others: list[Example]) -> None:
    """Raises UserError if the outputs ``path`` and ``other``, of which these are the examples, differ in references."""
    if len(examples) != len(others) or any(map(of_other_sentences, examples, others)):
        raise UserError(f"{path} and {other} have other references; give outputs for one test set.")


def of_other_sentences(one: Example, other: Example) -> bool:
    """Do the references differ in letters or digits, case aside? Another preparation may change marks and spaces. This
    is not known of raw text beside tokens, nor where there is an unknown word, as with another dictionary."""
    known = one.raw == other.raw and "unk>" not in one.target + other.target
    return known and _letters_and_digits(one.target) != _letters_and_digits(other.target)


def _letters_and_digits(line: str) -> str:
    return NEITHER_LETTER_NOR_DIGIT.sub("", unicodedata.normalize("NFKC", unescape(line))).casefold()


def read_text(path: Path) -> list[str]:
    """The lines of a UTF-8 file. Only a newline ends a line. A byte order mark at the beginning is no text."""
    try:
        text = regular(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 at byte {error.start}.") from None
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def read_references(path: Path, count: int) -> list[str]:
    """References, one per line. Raises UserError unless there are ``count``."""
    references = read_text(path)
    if len(references) != count:
        raise UserError(
            f"{path} holds {len(references)} references for {count} hypotheses: give the references of"
            " the same test set."
        )
    return references
