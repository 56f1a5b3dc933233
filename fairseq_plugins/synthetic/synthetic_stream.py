"""Streams of episodes with labels for tokens: the toy tasks of the Feedback paper (section 4.1)."""

from dataclasses import dataclass
from random import Random
from typing import Any, Optional

import numpy as np
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.options.fields import no_data, option
from fairseq_plugins.synthetic import programs
from fairseq_plugins.synthetic.episodes import Kind
from fairseq_plugins.synthetic.random_walk import RANDOM_WALK
from fairseq_plugins.synthetic.sequences import COPY, COPY_VARIED, REVERSE, REVERSE_VARIED, counting
from fairseq_plugins.tasks.labelled_stream import EpisodeDataset, LabelledTask
from fairseq_plugins.tasks.streaming_language_modeling import StreamingLanguageModelingConfig

KINDS = {
    "random-walk": RANDOM_WALK,
    "programs-3": programs.kind("xyz"),
    "programs-5": programs.kind("xyzpr"),
    "programs-3-equal": programs.kind("xyz", ("==",)),  # the comparison of the paper's text
    "programs-5-equal": programs.kind("xyzpr", ("==",)),
    "copy": COPY,
    "copy-varied": COPY_VARIED,
    "reverse": REVERSE,
    "reverse-varied": REVERSE_VARIED,
    "counting-50": counting(50),
    "counting-1000": counting(1000),
}


def draw_split(
    kind: Kind, index: dict[str, int], unlabelled: int, seed: int, name: str, episodes: int, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """A split of ``episodes`` episodes. Seed and name of the split determine it.

    Args:
        index: the number of each symbol and label
        unlabelled: the number that means that there is no label

    Returns:
        Symbols [N], labels [N], and the start of each episode, then N [episodes + 1]; all are integers.
    """
    draw = Random(f"{seed} {name}")
    symbols, labels, starts = [], [], [0]
    for _ in range(episodes):
        episode = kind.draw(draw, length)
        symbols += [index[symbol] for symbol in episode.symbols]
        labels += [unlabelled if label is None else index[label] for label in episode.labels]
        starts.append(len(symbols))
    return np.array(symbols, dtype=np.int64), np.array(labels, dtype=np.int64), np.array(starts)


KindName: Any = ChoiceEnum(list(KINDS))


@dataclass
class SyntheticStreamConfig(StreamingLanguageModelingConfig):
    data: Optional[str] = no_data()
    kind: KindName = option("random-walk", "kind of episodes")
    train_episodes: int = option(10_000, "number of episodes in the training split")
    test_episodes: int = option(1_000, "number of episodes in every other split")
    train_length: Optional[int] = option(
        None, "number of actions, statements or symbols in an episode (default: the paper's)"
    )
    test_length: Optional[int] = option(None, "the same for splits whose names start with test")
    data_seed: int = option(1, "seed of the episodes, which do not depend on --seed")


@register_task("synthetic_stream", dataclass=SyntheticStreamConfig)
class SyntheticStreamTask(LabelledTask):
    """A labelled stream without data files: episodes are drawn from --data-seed and the name of the split."""

    LEFT_OUT = ("data", *LabelledTask.LEFT_OUT)
    REASON = "--task synthetic_stream draws its data"
    MORE_LABELS = "raise --max-valid-steps, or choose longer episodes (--train-length)"

    @classmethod
    def setup_dictionary(cls, args, **kwargs):
        dictionary = Dictionary()
        for symbol in KINDS[str(args.kind)].vocabulary:
            dictionary.add_symbol(symbol)
        return dictionary, dictionary

    def load_dataset(self, split, epoch=1, combine=False, **unused):
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

    def length(self, split: str) -> int:
        """The length of the episodes of a split, as in ``Kind``."""
        kind = KINDS[str(self.args.kind)]
        if split.startswith("test"):
            return self.args.test_length or kind.test_length
        return self.args.train_length or kind.length
