"""Log-probabilities of raw text, in constant memory: of one long stream, or of single lines."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, tee
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq.modules import LearnedPositionalEmbedding
from torch import Tensor

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.streams.evaluation import Sum, bits_per_byte, per_byte
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.reading import read_text
from fairseq_plugins.tools.lib.language_model import keeps_memory

LINES = 16  # lines that a model of single lines reads at once


class Line(NamedTuple):
    """A line with its newline, or a piece of a long one, and its tokens."""

    text: str
    tokens: list[int]


@dataclass
class TextFigures:
    """The figures of a text, or of its beginning."""

    lines: int = 0
    bytes: int = 0
    unknown: int = 0
    all: Sum = field(default_factory=Sum)

    @property
    def bits_per_byte(self) -> float:
        return bits_per_byte(self.all.nats, self.bytes)

    @property
    def without_newlines(self) -> str:
        """For a model whose tokens are no code for the whole text."""
        return f"{self.lines} lines, {self.all}, newlines left out"

    def __str__(self):
        return f"{self.lines} lines, {self.all.tokens} tokens, {per_byte(self.all, self.bytes, self.unknown)}"


class Scorer:
    """Scores texts with a model.

    Args:
        model, cfg, task, text: of load_language_model
        block: tokens that a model over streams reads at once
    """

    def __init__(self, model, cfg, task, text: PreparedText, block: int):
        self.model, self.dictionary, self.text, self.block = model, task.dictionary, text, block
        self.stream = keeps_memory(task)
        self.newlines = not getattr(cfg.task, "no_end_of_line", False)  # are they tokens?
        self.reads_first = getattr(cfg.task, "no_first_target", False)  # the first token is no target

    def score(self, path: Path, figures: TextFigures) -> Iterator[tuple[str, float]]:
        """Each line with its log-probability. ``figures`` is kept up to date."""
        for line, tokens, score in (self._stream if self.stream else self._single_lines)(self._read(path)):
            figures.lines += 1
            figures.bytes += len(line.text.encode(errors=self.text.errors))
            figures.unknown += line.tokens.count(self.dictionary.unk())
            figures.all.tokens += tokens
            figures.all.nats -= score
            yield line.text.removesuffix("\n"), score

    def _read(self, path: Path) -> Iterator[Line]:
        for piece in read_text(path, self.text.errors):
            symbols = self.text.encode(piece.removesuffix("\n")).split()
            end = [self.dictionary.eos()] if self.stream and self.newlines and piece.endswith("\n") else []
            yield Line(piece, [self.dictionary.index(symbol) for symbol in symbols] + end)

    def _stream(self, lines: Iterator[Line]) -> Iterator[tuple[Line, int, float]]:
        """Each line, how many of its tokens are scored, and their sum."""
        lines, ahead = tee(lines)
        tokens, before = (token for line in ahead for token in line.tokens), self.dictionary.eos()
        unscored = 0
        if self.reads_first and (first := next(tokens, None)) is not None:
            before, unscored = first, 1
        scores = score_stream(self.model, tokens, before, self.block)
        for line in lines:
            scored = max(len(line.tokens) - unscored, 0)
            unscored -= len(line.tokens) - scored
            yield line, scored, sum(islice(scores, scored), 0.0)

    def _single_lines(self, lines: Iterator[Line]) -> Iterator[tuple[Line, int, float]]:
        while group := list(islice(lines, LINES)):
            tokens = [line.tokens for line in group]
            scores = score_batch(self.model, tokens, self.dictionary.pad(), self.dictionary.eos())
            yield from zip(group, [len(line) + 1 for line in tokens], scores)


@torch.no_grad()
def score_stream(model, tokens: Iterable[int], before: int, block: int) -> Iterator[float]:
    """The natural log-probability of each token of a stream, whose memory goes on from block to block.

    Args:
        model: a StreamingLanguageModel
        before: the token before the stream, as a rule end-of-line
        block: M, tokens that the model reads at once
    """
    tokens, memory = iter(tokens), StreamMemory()
    while target := list(islice(tokens, block)):
        source = [before, *target[:-1]]
        yield from _log_probs(model, [source], [target], memory=memory)[0].tolist()
        before = target[-1]


@torch.no_grad()
def score_batch(model, lines: list[list[int]], pad: int, eos: int) -> list[float]:
    """The natural log-probability of each line and its end.

    Args:
        model: a language model without memory
        lines: the tokens of each line, without end-of-line
        pad, eos: indices of padding and end-of-line

    Raises:
        UserError: a line is longer than the model's table of positions
    """
    longest = max(map(len, lines)) + 1
    check_length(model, longest)
    fill = [[pad] * (longest - len(line) - 1) for line in lines]
    source = [[eos, *line, *rest] for line, rest in zip(lines, fill)]
    target = [[*line, eos, *rest] for line, rest in zip(lines, fill)]
    scores = _log_probs(model, source, target)
    return scores.masked_fill(torch.tensor(target, device=scores.device).eq(pad), 0).sum(1).tolist()


def check_length(model, tokens: int) -> None:
    positions = getattr(model.decoder, "embed_positions", None)
    if isinstance(positions, LearnedPositionalEmbedding) and tokens > positions.max_positions:
        raise UserError(
            f"a line has {tokens} tokens with its end, but the model has learned {positions.max_positions} positions:"
            " cut the line."
        )


def _log_probs(model, source: list[list[int]], target: list[list[int]], **memory) -> Tensor:
    """[B, M] in float64"""
    device = next(model.parameters()).device
    inputs, targets = torch.tensor(source, device=device), torch.tensor(target, device=device)
    output = model(inputs, **memory)
    log_probs = model.get_normalized_probs(output, log_probs=True)
    return log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1).double()
