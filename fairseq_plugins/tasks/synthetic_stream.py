"""Streams of episodes with labels beside the tokens: the toy tasks of the Feedback paper (section 4.1)."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Optional

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
    # a constant makes it optional, which else it would not be
    data: Optional[str] = field(default="", metadata={"help": "leave it out", "argparse_const": ""})
    kind: ChoiceEnum(list(KINDS)) = field(default="random-walk", metadata={"help": "what the episodes are"})
    train_episodes: int = field(default=10_000, metadata={"help": "episodes of the training split"})
    test_episodes: int = field(default=1_000, metadata={"help": "episodes of every other split"})
    # Optional: fairseq does not understand `int | None`
    train_length: Optional[int] = field(
        default=None, metadata={"help": "actions, statements or symbols of an episode, by default as in the paper"}
    )
    test_length: Optional[int] = field(
        default=None, metadata={"help": "the same of splits whose names begin with test"}
    )
    data_seed: int = field(default=1, metadata={"help": "which episodes are drawn; --seed does not change them"})


NOTHING = (None, "", False, "none")  # what flags that have no meaning here may be


@register_task("synthetic_stream", dataclass=SyntheticStreamConfig)
class SyntheticStreamTask(StreamingLanguageModelingTask):
    """Everything of streams, but for what is read: episodes are drawn in memory, from --data-seed and the split's name,
    so there are no files to go with a checkpoint. The label of a token is its target; without one there is no loss.
    """

    @classmethod
    def setup_task(cls, args, **kwargs):
        for name in ("data", "no_end_of_line", "sample_break_mode"):
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
                f"--criterion {args._name} would count tokens without a label; --task synthetic_stream needs"
                " --criterion label_cross_entropy."
            )
        return super().build_criterion(args)

    def load_dataset(self, split, **unused):
        args, pad = self.args, self.dictionary.pad()
        episodes = args.train_episodes if split == "train" else args.test_episodes
        drawn = draw_split(
            KINDS[str(args.kind)], self.dictionary.indices, pad, args.data_seed, split, episodes, self.length(split)
        )
        self.datasets[split] = EpisodeDataset(*drawn, split, pad, self.dictionary.eos())

    def length(self, split: str) -> int:
        """Of the split's episodes, as of Kind."""
        kind = KINDS[str(self.args.kind)]
        if split.startswith("test"):
            return self.args.test_length or kind.test_length
        return self.args.train_length or kind.length

    def eval_lm_dataloader(self, dataset, **unused):
        raise UserError(
            "fairseq-eval-lm scores every token: take fairseq-validate, or python -m"
            " fairseq_plugins.tools.label_accuracy."
        )

    def inference_step(self, *unused, **also_unused):
        raise UserError("--task synthetic_stream has nothing to generate; take fairseq-validate.")


class EpisodeDataset(StreamDataset):
    """Tokens of a split that are inputs themselves, with labels. Streams hold whole episodes, unless they are rotated.

    Args:
        symbols, labels: [N], in the labels pad for none
        starts: [episodes + 1] where each episode starts, and N
        split, pad, eos: as of StreamDataset
    """

    def __init__(self, symbols: np.ndarray, labels: np.ndarray, starts: np.ndarray, split: str, pad: int, eos: int):
        super().__init__(symbols, split, pad, eos)
        self.labels, self.starts = labels, starts

    @cached_property
    def checksum(self) -> int:
        return StreamDataset(np.stack([self.tokens, self.labels]), self.split, self.pad, self.eos).checksum

    def longest(self, streams):
        return max(end - begin for begin, end in (self._bounds(stream, streams) for stream in range(streams)))

    def read(self, positions):
        return self.tokens[positions], self.labels[positions]

    def _bounds(self, stream, streams):
        episodes = len(self.starts) - 1
        return tuple(int(self.starts[episodes * number // streams]) for number in (stream, stream + 1))
