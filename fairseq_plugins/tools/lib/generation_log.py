"""Read the output of fairseq-generate: shared by the tools that score it."""

import re
from pathlib import Path
from typing import NamedTuple

from fairseq_plugins.errors import UserError
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Moses

LINE = re.compile(r"([STHD])-(\d+)\t(.*)")
PIECE = re.compile(r"(^| )▁|@@( |$)")


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
    if fairseq-generate brought them back (--bpe prepared), or if ``text`` says that nothing else was done than to split
    raw text into pieces. Otherwise they are tokens.

    Args:
        text: how the data was prepared; it joins pieces that fairseq-generate has not joined

    Raises:
        UserError: the output is truncated, lacks sentences, has some twice, or holds pieces of words
    """
    parts = {"S": {}, "T": {}, "H": {}, "D": {}}
    whole = False
    for line in read_text(path):
        if match := LINE.fullmatch(line):
            kind, number, content = match.groups()
            if kind in "ST" and int(number) in parts[kind]:
                raise UserError(f"{path} has sentence {number} twice; give the output of one run of fairseq-generate.")
            # --nbest prints the best hypothesis first
            parts[kind].setdefault(int(number), content.partition("\t")[2] if kind in "HD" else content)
        whole = whole or line.startswith("Generate ")
    sources, targets, hypotheses, brought_back = parts.values()
    if not whole:
        raise UserError(
            f"{path} lacks the last line of fairseq-generate, so it may be truncated: run fairseq-generate again."
        )
    if not hypotheses:
        raise UserError(f"{path} has no sentences; give what fairseq-generate printed, without --quiet.")
    numbers = sorted(hypotheses)
    if numbers != list(range(len(numbers))) or targets.keys() != hypotheses.keys():
        raise UserError(
            f"{path} holds {len(hypotheses)} hypotheses and {len(targets)} references, numbered up to "
            f"{max(numbers, default=-1)}: generate with --required-batch-size-multiple 1 and without --num-shards."
        )
    # fairseq-generate brings back references as it brings back the hypotheses of its D- lines
    raw = bool(brought_back) and brought_back != hypotheses
    if raw:
        hypotheses = brought_back
    elif any(map(PIECE.search, hypotheses.values())):
        if not text:
            raise UserError(
                f"{path} holds words in pieces ('@@ ' or '▁'): generate with --remove-bpe for tokens, or with --bpe"
                " prepared for raw text."
            )
        raw = not isinstance(text.target, Moses)
        sources, targets, hypotheses = (
            {number: text.level.decode(symbols) for number, symbols in part.items()}
            for part in (sources, targets, hypotheses)
        )
    return [Example(sources.get(number, ""), targets[number], hypotheses[number], raw) for number in numbers]


def read_text(path: Path) -> list[str]:
    """The lines of a UTF-8 file. Only a newline ends a line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 at byte {error.start}.") from None
    return text.removesuffix("\n").split("\n") if text else []


def read_references(path: Path, count: int) -> list[str]:
    """References, one per line. Raises UserError unless there are ``count``."""
    references = read_text(path)
    if len(references) != count:
        raise UserError(
            f"{path} holds {len(references)} references for {count} hypotheses: give the references of"
            " the same test set."
        )
    return references
