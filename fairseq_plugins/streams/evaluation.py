"""Exact figures of an evaluation: every token once, sums in float64."""

import logging
import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

TELL_AFTER = 60  # seconds without a word of how far an evaluation is: fairseq-eval-lm has none where output is a file


@dataclass
class Sum:
    """Negative log-probability of so many tokens, in nats."""

    tokens: int = 0
    nats: float = 0.0

    @property
    def mean(self) -> float:
        return self.nats / max(self.tokens, 1)

    @property
    def bits(self) -> float:
        """Of a token, on average."""
        return self.mean / math.log(2)

    def __str__(self):
        return (
            f"{self.tokens} tokens, {self.nats:.4f} nats, {self.mean:.6f} nats per token,"
            f" {self.bits:.6f} bits per token (bpc), perplexity {math.exp(self.mean):.4f}"
        )


class Figures:
    """Counts what a model reports of its targets.

    fairseq-eval-lm gives no plugin its scores, and adds them up in float32. So the object travels in the sample, and
    the model's ``get_normalized_probs`` reports to it.

    Args:
        pad, eos: indices of padding, which does not count, and end-of-line
        settings: what else the figures depend on, logged with them
    """

    def __init__(self, pad: int, eos: int, settings: str = ""):
        self.pad, self.eos, self.settings = pad, eos, settings
        self.all, self.within_lines = Sum(), Sum()

    def add(self, log_probs: Tensor, targets: Tensor) -> None:
        """Natural log-probabilities of targets; both of any one shape. Padding does not count."""
        for figures, counted in (
            (self.all, targets.ne(self.pad)),
            (self.within_lines, targets.ne(self.pad) & targets.ne(self.eos)),
        ):
            figures.tokens += int(counted.sum())
            figures.nats -= float(log_probs[counted].sum(dtype=torch.float64))

    def log(self) -> None:
        logger.info(f"with end-of-line: {self.all}")
        logger.info(f"without end-of-line: {self.within_lines}")
        if self.settings:
            logger.info(self.settings)


class Evaluation:
    """The blocks of a split as fairseq-eval-lm takes them: with memory and figures, which are logged at the end.

    Args:
        blocks: samples of StreamDataset
        prepare: sample -> sample with its memory
        figures: where the model reports
    """

    def __init__(self, blocks, prepare, figures: Figures):
        self.blocks, self.prepare, self.figures = blocks, prepare, figures

    def __len__(self):
        return len(self.blocks)

    def __iter__(self):
        told = time.monotonic()
        for number, sample in enumerate(self.blocks):
            if time.monotonic() - told > TELL_AFTER:
                logger.info(f"{number} of {len(self)} blocks, so far {self.figures.all.bits:.4f} bits per token")
                told = time.monotonic()
            yield {**self.prepare(sample), "figures": self.figures}
        self.figures.log()
