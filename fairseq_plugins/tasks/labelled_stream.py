"""Streams whose tokens have labels, which a model learns to predict from the tokens read so far."""

from dataclasses import dataclass
from functools import cached_property
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import ConcatDataset
from fairseq.tasks import register_task

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.options.fields import option
from fairseq_plugins.streams.dataset import StreamDataset, flat_tokens
from fairseq_plugins.tasks.streaming_language_modeling import (
    StreamingLanguageModelingConfig,
    StreamingLanguageModelingTask,
)

NOTHING = (None, "", False, "none")  # values of a flag that mean that it was not given
SCRIPT = "preprocess/labelled_text.py"


@dataclass
class LabelledStreamConfig(StreamingLanguageModelingConfig):
    omit_label: str = option("_", "the mark of a token without a label")


class LabelledTask(StreamingLanguageModelingTask):
    """A streaming task whose target of a token is its label; a token without a label has no loss."""

    LEFT_OUT: tuple[str, ...] = ("no_end_of_line", "no_first_target", "sample_break_mode")  # flags without meaning here
    REASON: str  # why they have none
    MORE_LABELS = "raise --max-valid-steps"  # for a validation that has seen none

    @classmethod
    def setup_task(cls, args, **kwargs):
        for name in cls.LEFT_OUT:
            if getattr(args, name) not in NOTHING:
                what = "the data folder" if name == "data" else flag(name)
                raise UserError(f"{cls.REASON}: leave out {what}.")
        return super().setup_task(args, **kwargs)

    def build_criterion(self, cfg, from_checkpoint=False):
        if cfg._name != "label_cross_entropy":
            raise UserError(
                f"--criterion {cfg._name} would add a loss for tokens without a label; --task {self.args._name} needs"
                " --criterion label_cross_entropy."
            )
        return super().build_criterion(cfg)

    def post_validate(self, model, stats, agg):
        if not agg["nll_loss"].count:
            raise UserError(f"no token of this validation has a label: {self.MORE_LABELS}.")
        super().post_validate(model, stats, agg)

    def eval_lm_dataloader(self, *unused, **also_unused):
        raise UserError(
            "fairseq-eval-lm scores every token, also those without a label: take fairseq-validate, or python -m"
            " fairseq_plugins.tools.label_accuracy."
        )

    def inference_step(self, *unused, **also_unused):
        raise UserError(f"--task {self.args._name} cannot generate; take fairseq-validate.")


@register_task("labelled_stream", dataclass=LabelledStreamConfig)
class LabelledStreamTask(LabelledTask):
    """Text and labels of the user's own, as preprocess/labelled_text.py binarises them. A line is an episode: streams
    hold whole lines, unless they are rotated, and the memory goes on from line to line."""

    REASON = "--task labelled_stream reads lines of symbols without end-of-line tokens"

    def load_dataset(self, split, epoch=1, combine=False, **unused):
        path, pad = self.path_of(split, epoch), self.dictionary.pad()
        files = [path, *takewhile(has_index, (path.with_name(f"{split}{number}") for number in count(1)))]
        parts = [self.part(file) for file in (files if combine else [path])]
        symbols, labels = map(ConcatDataset, zip(*parts))
        tokens, targets = flat_tokens(symbols), flat_tokens(labels).astype(np.int64)
        # fairseq-preprocess would have ended lines of both, and a line's end has no label
        none = [self.dictionary.eos(), self.dictionary.indices.get(self.args.omit_label, pad)]
        targets[np.isin(targets, none)] = pad
        starts = np.concatenate([[0], np.cumsum(symbols.sizes[symbols.sizes > 0])])
        settings = {"--omit-label": self.args.omit_label}
        dataset = EpisodeDataset(tokens, targets, starts, split, pad, self.dictionary.eos(), settings)
        if not (dataset.labels != pad).any():
            raise UserError(f"no token of {path} has a label other than --omit-label {self.args.omit_label}; add some.")
        self.datasets[split] = dataset

    def part(self, path: Path) -> tuple:
        """The lines of symbols and of labels of a file. Raises UserError if they do not fit."""
        symbols = self.lines_of(path, combine=False)
        try:
            labels = self.lines_of(path.with_name(f"{path.name}.labels"), combine=False)
        except FileNotFoundError as error:
            raise UserError(f"{path}.labels.idx does not exist; prepare text and labels with {SCRIPT}.") from error
        if not np.array_equal(symbols.sizes, labels.sizes):
            raise UserError(
                f"{path}.labels does not have as many tokens a line as {path}; prepare both with {SCRIPT}, or again if"
                " that has made them."
            )
        return symbols, labels

    def stream_iterator(self, dataset, batch, training=False, length=None, num_shards=1, *options, **others):
        if (lines := len(dataset.starts) - 1) < batch * num_shards:
            raise UserError(
                f"split {dataset.split} has {lines} lines, fewer than its {batch * num_shards} streams; lower"
                " --batch-size or --batch-size-valid, or prepare the text in shorter lines."
            )
        return super().stream_iterator(dataset, batch, training, length, num_shards, *options, **others)


def has_index(path: Path) -> bool:
    return path.with_name(f"{path.name}.idx").exists()


class EpisodeDataset(StreamDataset):
    """Tokens of a split with their labels. Unlike in a StreamDataset, the input at a position is the token itself.
    Streams hold whole episodes, unless they are rotated.

    Args:
        symbols, labels: [N]; ``pad`` in the labels means that there is none
        starts: [episodes + 1], the start of each episode, and N
        split, pad, first_input: as in StreamDataset
        settings: that the episodes were made with, by their flags
    """

    def __init__(
        self, symbols: np.ndarray, labels: np.ndarray, starts: np.ndarray, split: str, pad: int,
        first_input: int, settings: dict[str, str] | None = None,
    ):  # fmt: skip
        super().__init__(symbols, split, pad, first_input)
        self.labels, self.starts, self.settings = labels, starts, settings or {}

    @property
    def facts(self) -> dict[str, Any]:
        return {**self.settings, **super().facts}

    @cached_property
    def checksum(self) -> int:
        return StreamDataset(np.stack([self.tokens, self.labels]), self.split, self.pad, self.first_input).checksum

    def longest(self, streams):
        return max(end - begin for begin, end in (self._bounds(stream, streams) for stream in range(streams)))

    def read(self, positions):
        return self.tokens[positions], self.labels[positions]

    def first_episode(self, stream: int, streams: int) -> int:
        """The number of the episode that a stream begins with, of as many streams as there are episodes at most."""
        return (len(self.starts) - 1) * stream // streams

    def _bounds(self, stream, streams):
        return tuple(int(self.starts[self.first_episode(number, streams)]) for number in (stream, stream + 1))
