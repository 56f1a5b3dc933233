"""Read the output of fairseq-generate: shared by the tools that score it."""

import re
from pathlib import Path
from typing import NamedTuple

from fairseq_plugins.errors import UserError

LINE = re.compile(r"([STH])-(\d+)\t(.*)")


class Example(NamedTuple):
    source: str
    target: str
    hypothesis: str


def read_generation(path: Path) -> list[Example]:
    """The best hypothesis for each sentence, with its tokenised source and reference, in the order of the data.

    Raises:
        UserError: the output is truncated, lacks sentences, or holds byte pair encoding
    """
    parts = {"S": {}, "T": {}, "H": {}}
    whole = False
    for line in read_text(path):
        if match := LINE.fullmatch(line):
            kind, number, content = match.groups()
            # --nbest prints the best hypothesis first
            parts[kind].setdefault(int(number), content.partition("\t")[2] if kind == "H" else content)
        whole = whole or line.startswith("Generate ")
    sources, targets, hypotheses = parts.values()
    if not whole:
        raise UserError(
            f"{path} lacks the last line of fairseq-generate, so it may be truncated: run fairseq-generate again."
        )
    numbers = sorted(hypotheses)
    if numbers != list(range(len(numbers))) or targets.keys() != hypotheses.keys():
        raise UserError(
            f"{path} holds {len(hypotheses)} hypotheses and {len(targets)} references, numbered up to "
            f"{max(numbers, default=-1)}: generate with --required-batch-size-multiple 1 and without --num-shards."
        )
    if any("@@ " in hypothesis or hypothesis.endswith("@@") for hypothesis in hypotheses.values()):
        raise UserError(f"{path} holds words in pieces ('@@ '): generate with --remove-bpe.")
    return [Example(sources.get(number, ""), targets[number], hypotheses[number]) for number in numbers]


def read_text(path: Path) -> list[str]:
    """The lines of a UTF-8 file. Only a newline ends a line."""
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 at byte {error.start}.") from None


def read_references(path: Path, count: int) -> list[str]:
    """References, one per line. Raises UserError unless there are ``count``."""
    references = read_text(path)
    if len(references) != count:
        raise UserError(
            f"{path} holds {len(references)} references for {count} hypotheses: give the references of"
            " the same test set."
        )
    return references


def moses_tokeniser(language: str):
    """A function from plain text to Moses tokens in one string."""
    from sacremoses import MosesTokenizer

    tokeniser = MosesTokenizer(language)
    return lambda line: tokeniser.tokenize(line, return_str=True)


def moses_detokeniser(language: str):
    """A function from Moses tokens in one string to plain text."""
    from sacremoses import MosesDetokenizer

    detokeniser = MosesDetokenizer(language)
    return lambda line: detokeniser.detokenize(line.split())
