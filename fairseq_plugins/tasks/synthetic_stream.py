"""Streams of episodes with labels for tokens: the toy tasks of the Feedback paper (section 4.1)."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Optional

import numpy as np
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.streams.dataset import StreamDataset
from fairseq_plugins.synthetic.streams import KINDS, draw_split
from fairseq_plugins.tasks.streaming_language_modeling import (
    StreamingLanguageModelingConfig,
    StreamingLanguageModelingTask,
)


@dataclass
class SyntheticStreamConfig(StreamingLanguageModelingConfig):
    # argparse_const makes the positional argument optional
    data: Optional[str] = field(default="", metadata={"help": "leave it out: there are no data", "argparse_const": ""})
    kind: ChoiceEnum(list(KINDS)) = field(default="random-walk", metadata={"help": "kind of episodes"})
    train_episodes: int = field(default=10_000, metadata={"help": "number of episodes in the training split"})
    test_episodes: int = field(default=1_000, metadata={"help": "number of episodes in every other split"})
    # Optional: fairseq does not understand `int | None`
    train_length: Optional[int] = field(
        default=None, metadata={"help": "number of actions, statements or symbols in an episode (default: the paper's)"}
    )
    test_length: Optional[int] = field(
        default=None, metadata={"help": "the same for splits whose names start with test"}
    )
    data_seed: int = field(default=1, metadata={"help": "seed of the episodes, which do not depend on --seed"})


NOTHING = (None, "", False, "none")  # values of a flag that mean that it was not given


@register_task("synthetic_stream", dataclass=SyntheticStreamConfig)
class SyntheticStreamTask(StreamingLanguageModelingTask):
    """A streaming task without data files: episodes are drawn from --data-seed and the name of the split. The target of
    a token is its label; a token without a label has no loss."""

    @classmethod
    def setup_task(cls, args, **kwargs):
        for name in ("data", "no_end_of_line", "no_first_target", "sample_break_mode"):
            if getattr(args, name) not in NOTHING:
                what = "the data folder" if name == "data" else flag(name)
                raise UserError(f"--task synthetic_stream draws its data: leave out {what}.")
        for name in ("train_episodes", "test_episodes", "train_length", "test_length"):
            if getattr(args, name) is not None and getattr(args, name) < 1:
                raise UserError(f"{flag(name)} {getattr(args, name)} is too small; choose at least 1.")
        return super().setup_task(args, **kwargs)

    @classmethod
    def setup_dictionary(cls, args, **kwargs):
        dictionary = Dictionary()
        for symbol in KINDS[str(args.kind)].vocabulary:
            dictionary.add_symbol(symbol)
        return dictionary, dictionary

    def build_criterion(self, args):
        if args._name != "label_cross_entropy":
            raise UserError(
                f"--criterion {args._name} would add a loss for tokens without a label; --task synthetic_stream needs"
                " --criterion label_cross_entropy."
            )
        return super().build_criterion(args)

    def load_dataset(self, split, **unused):
        args, pad = self.args, self.dictionary.pad()
        episodes = args.train_episodes if split == "train" else args.test_episodes
        drawn = draw_split(
            KINDS[str(args.kind)], self.dictionary.indices, pad, args.data_seed, split, episodes, self.length(split)
        )
        settings = {}
        if split == "train":
            settings = {flag(name): str(getattr(args, name)) for name in ("kind", "train_episodes", "data_seed")}
            settings["--train-length"] = str(self.length(split))
        dataset = EpisodeDataset(*drawn, split, pad, self.dictionary.eos(), settings)
        if not (dataset.labels != pad).any():
            of = "test" if split.startswith("test") else "train"
            raise UserError(
                f"no token of the split {split} has a label: choose longer episodes (--{of}-length; of label_accuracy:"
                " --length)."
            )
        self.datasets[split] = dataset

    def post_validate(self, model, stats, agg):
        if not agg["nll_loss"].count:
            raise UserError(
                "no token of this validation has a label: raise --max-valid-steps, or choose longer episodes"
                " (--train-length)."
            )
        super().post_validate(model, stats, agg)

    def length(self, split: str) -> int:
        """The length of the episodes of a split, as in ``Kind``."""
        kind = KINDS[str(self.args.kind)]
        if split.startswith("test"):
            return self.args.test_length or kind.test_length
        return self.args.train_length or kind.length

    def eval_lm_dataloader(self, dataset, **unused):
        raise UserError(
            "fairseq-eval-lm scores every token, also those without a label: take fairseq-validate, or python -m"
            " fairseq_plugins.tools.label_accuracy."
        )

    def inference_step(self, *unused, **also_unused):
        raise UserError("--task synthetic_stream cannot generate; take fairseq-validate.")


class EpisodeDataset(StreamDataset):
    """Tokens of a split with their labels. Unlike in a StreamDataset, the input at a position is the token itself.
    Streams hold whole episodes, unless they are rotated.

    Args:
        symbols, labels: [N]; ``pad`` in the labels means that there is none
        starts: [episodes + 1], the start of each episode, and N
        split, pad, first_input: as in StreamDataset
        settings: that the episodes were drawn with, by their flags
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
