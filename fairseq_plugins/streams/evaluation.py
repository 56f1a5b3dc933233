"""Evaluation with exact figures: every token counts once, and sums are in float64."""

import logging
import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.dataset import StreamDataset
from fairseq_plugins.streams.memory import NO_STREAM

logger = logging.getLogger(__name__)

# Seconds between log lines on the progress of an evaluation; fairseq-eval-lm shows none if its output goes to a file.
LOG_EVERY = 60


@dataclass
class Sum:
    """The number of some tokens, and the sum of their negative log-probabilities."""

    tokens: int = 0
    nats: float = 0.0

    @property
    def mean(self) -> float:
        return self.nats / max(self.tokens, 1)

    @property
    def bits(self) -> float:
        """The mean in bits per token."""
        return self.mean / math.log(2)

    def __str__(self):
        return (
            f"{self.tokens} tokens, {self.nats:.4f} nats, {self.mean:.6f} nats per token,"
            f" {self.bits:.6f} bits per token, perplexity {math.exp(self.mean):.4f}"
        )


def bits_per_byte(nats: float, raw_bytes: int) -> float:
    return nats / math.log(2) / raw_bytes


def per_byte(figures: Sum, raw_bytes: int, unknown: int) -> str:
    """The bits for each byte of the raw text, by which models with different symbols can be compared. Ends of lines
    count in both. The figure lacks the bits that spell the ``unknown`` tokens, which are <unk>."""
    text = f"{bits_per_byte(figures.nats, raw_bytes):.6f} bits per byte of the raw text, {raw_bytes} bytes"
    if unknown:
        share = 100 * unknown / max(figures.tokens, 1)
        text += f"; {share:.3g} % of the tokens are <unk>, so this figure is too low"
    return text


class Figures:
    """Adds up the log-probabilities that a model gives to its targets, with and without end-of-line tokens.

    fairseq-eval-lm does not pass its scores to plugins, and adds them up in float32. So this object is put into each
    sample, and the model's ``get_normalized_probs`` adds to it.

    Args:
        settings: other settings that the figures depend on; they are logged with the figures
        raw_bytes: bytes of the raw text, if they are known and all of it is scored
    """

    def __init__(self, pad: int, eos: int, settings: str = "", unk: int | None = None, raw_bytes: int | None = None):
        self.pad, self.eos, self.settings = pad, eos, settings
        self.unk, self.raw_bytes = unk, raw_bytes
        self.all, self.within_lines, self.unknown = Sum(), Sum(), 0

    def add(self, log_probs: Tensor, targets: Tensor) -> None:
        """Natural log-probabilities of targets, and the targets, of one shape; padding does not count."""
        for figures, counted in (
            (self.all, targets.ne(self.pad)),
            (self.within_lines, targets.ne(self.pad) & targets.ne(self.eos)),
        ):
            figures.tokens += int(counted.sum())
            figures.nats -= float(log_probs[counted].sum(dtype=torch.float64))
        if self.unk is not None:
            self.unknown += int(targets.eq(self.unk).sum())

    def log(self) -> None:
        logger.info(f"with end-of-line: {self.all}")
        logger.info(f"without end-of-line: {self.within_lines}")
        if self.raw_bytes:
            logger.info(per_byte(self.all, self.raw_bytes, self.unknown))
        if self.settings:
            logger.info(self.settings)


class Evaluation:
    """The blocks of a split for fairseq-eval-lm, each with its memory, which ``prepare`` adds, and the figures. After
    the last block the figures are logged."""

    def __init__(self, blocks, prepare, figures: Figures):
        self.blocks, self.prepare, self.figures = blocks, prepare, figures

    def __len__(self):
        return len(self.blocks)

    def __iter__(self):
        last = time.monotonic()
        for number, sample in enumerate(self.blocks):
            if time.monotonic() - last > LOG_EVERY:
                logger.info(f"{number} of {len(self)} blocks, so far {self.figures.all.bits:.4f} bits per token")
                last = time.monotonic()
            yield {**self.prepare(sample), "figures": self.figures}
        self.figures.log()


def check_evaluation(dataset, batch: int, num_shards: int, context_window: int) -> None:
    """Raises UserError for an option of fairseq-eval-lm that is wrong for streams."""
    if context_window > 0:
        raise UserError("--context-window is for models without memory; leave it out.")
    if num_shards > 1:
        raise UserError("--num-shards would evaluate a part of the split only; leave it out.")
    if not isinstance(dataset, StreamDataset):
        raise UserError(NO_STREAM)
    if batch > 1:
        logger.info(
            f"each of the {batch} streams starts from an empty memory: the same tokens count, but the figures are exact"
            " only with --batch-size 1"
        )
