"""The accuracy of a model of --task synthetic_stream or labelled_stream: over all labels, over whole episodes, and by
position in an episode. The episodes of labelled_stream are the lines of its text.

    python -m fairseq_plugins.tools.label_accuracy runs/walk/checkpoint_best.pt --json runs/walk/test.json
    python -m fairseq_plugins.tools.label_accuracy runs/mine/checkpoint_best.pt --data data/mine/bin --split valid

Each stream starts at the beginning of an episode and from an empty memory. In training the memory is hardly ever empty,
so the first episodes of the streams are counted by themselves, too. The file of --json holds:

    accuracy              percent of labels that are right
    sequence_accuracy     percent of episodes in which all labels are right; those without a label do not count
    labels, episodes      their numbers
    first_episodes        the same four of the first episode of every stream; null where none has a label
    span                  number of tokens that one entry of the following lists stands for
    by_position           percent of labels that are right, by position in the episode; null where there is no label
    labels_by_position    number of labels, by position in the episode
    by_group              of programs: percent of labels that are right, by the number of variables assigned so far,
                          also under conditions that do not hold
    labels_by_group       of programs: number of labels, in the same way

The first two are printed, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.files.whole import write_json
from fairseq_plugins.options.ranges import whole
from fairseq_plugins.tools.lib.command import Command

if TYPE_CHECKING:
    import numpy as np

    from fairseq_plugins.synthetic.episodes import Kind
    from fairseq_plugins.tasks.labelled_stream import EpisodeDataset, LabelledTask


def main():
    args = parse()
    from fairseq_plugins.synthetic.synthetic_stream import KINDS, SyntheticStreamTask
    from fairseq_plugins.tasks.labelled_stream import LabelledTask
    from fairseq_plugins.tools.lib.load import load

    model, _, task = load(args.checkpoint, overrides(args), args.cpu, partial(check, args))
    if not isinstance(task, LabelledTask):
        raise UserError(
            f"{args.checkpoint} is not a model of --task synthetic_stream or labelled_stream; give one that is."
        )
    task.load_dataset(args.split)
    dataset = task.dataset(args.split)
    streams = min(args.streams, len(dataset.starts) - 1)
    right, labelled = labels_right(model, task, dataset, streams), dataset.labels != dataset.pad
    metrics = summary(right, labelled, dataset.starts, args.bins)
    first = [dataset.first_episode(stream, streams) for stream in range(streams)]
    metrics["first_episodes"] = counted(right, labelled, dataset.starts, first)
    kind = KINDS[str(task.args.kind)] if isinstance(task, SyntheticStreamTask) else None
    if kind and kind.groups:
        metrics |= by_group(right, labelled, groups_of(dataset, task, kind))
    if args.json:
        write_json(args.json, {"split": args.split, **metrics})
    print(f"accuracy {metrics['accuracy']:.2f} %, of whole episodes {metrics['sequence_accuracy']:.2f} %")


def parse():
    parser = Command(__doc__)
    parser.add_argument("checkpoint", type=checkpoint)
    parser.add_argument("--split", default="test", help="train, valid, or a name that starts with test (%(default)s)")
    parser.option("--streams", whole(1), 32, "B", "maximum number of parallel streams")
    words = "data of labelled_stream, with the dictionary of training (default: training's)"
    parser.option("--data", str, None, "DIR", words)
    for name, words in (("episodes", "number of drawn episodes"), ("length", "length of a drawn episode")):
        parser.option(f"--{name}", whole(1), None, "N", f"{words} (default: as in training)")
    parser.option("--bins", whole(1), 50, "N", "maximum number of entries by position")
    parser.add_json("write the metrics there")
    parser.add_cpu()
    args = parser.parse()
    if args.split not in ("train", "valid") and not args.split.startswith("test"):
        raise UserError(f"--split {args.split} is not a split; choose train, valid, or a name that starts with test.")
    return args


def check(args, trained) -> None:
    """Compare the arguments with the options of the task in training.

    Raises:
        UserError: an option is for episodes that are drawn, and those of the task are not; or --data has another
            dictionary than the training, so the model would read other symbols than it has learned
    """
    from fairseq import utils
    from fairseq.data import Dictionary

    given = [name for name in ("episodes", "length") if getattr(args, name)]
    if given and trained._name == "labelled_stream":
        raise UserError(
            f"--{given[0]} is for episodes that are drawn; those of {args.checkpoint} are the lines of its data: leave"
            " it out."
        )
    if args.data:
        (data, *_) = utils.split_paths(trained.data)
        files = [Path(folder) / "dict.txt" for folder in (data, args.data)]
        if all(map(Path.is_file, files)) and Dictionary.load(str(files[0])) != Dictionary.load(str(files[1])):
            raise UserError(
                f"--data {args.data} has another dictionary than the training ({data}): prepare it again, with"
                " train.txt and train.labels of the training beside it, from which the dictionary is made."
            )


def overrides(args) -> dict:
    """The options of the task whose values differ from those in training."""
    episodes = "train_episodes" if args.split == "train" else "test_episodes"
    length = "test_length" if args.split.startswith("test") else "train_length"
    given = {episodes: args.episodes, length: args.length, "data": args.data}
    return {name: value for name, value in given.items() if value is not None}


def labels_right(model, task: LabelledTask, dataset: EpisodeDataset, streams: int) -> np.ndarray:
    """[N]: for every token of the split, is the model's best guess the label? False where there is no label."""
    import numpy as np
    import torch

    from fairseq_plugins.criterions.label_cross_entropy import label_scores
    from fairseq_plugins.tools.lib.load import on_device

    with torch.no_grad():
        right = np.zeros(len(dataset), dtype=bool)
        for (block,) in task.stream_iterator(dataset, streams).frozen_batches:
            sample = on_device(model, dataset[block])
            guesses = label_scores(model, task.with_memory(sample)).argmax(-1)
            for row, places in zip(guesses.eq(sample["target"]).cpu().numpy(), dataset.positions(block), strict=True):
                right[places] = row[: len(places)]
        return right & (dataset.labels != dataset.pad)


def counted(right: np.ndarray, labelled: np.ndarray, starts: np.ndarray, which: Sequence[int]) -> dict:
    """The accuracy in these episodes, those without labels left out; None where none has labels. The other arguments
    are those of ``summary``."""
    import numpy as np

    labels, hits = (np.add.reduceat(array, starts[:-1], dtype=int)[which] for array in (labelled, right))
    with_labels = labels > 0  # the others are neither right nor wrong
    labels, hits = labels[with_labels], hits[with_labels]
    return {
        "accuracy": 100 * float(hits.sum() / labels.sum()) if len(labels) else None,
        "sequence_accuracy": 100 * float((hits == labels).mean()) if len(labels) else None,
        "labels": int(labels.sum()),
        "episodes": len(labels),
    }


def summary(right: np.ndarray, labelled: np.ndarray, starts: np.ndarray, bins: int) -> dict:
    """The metrics that --json writes, but for the first episodes.

    Args:
        right, labelled: [N], booleans for every token
        starts: [episodes + 1], the start of each episode, and N
        bins: maximum number of entries by position
    """
    import numpy as np

    lengths = np.diff(starts)
    span = -(-int(lengths.max()) // bins)
    places = (np.arange(len(right)) - np.repeat(starts[:-1], lengths)) // span
    labels = np.bincount(places, weights=labelled)
    hits = np.bincount(places, weights=right)
    return {
        **counted(right, labelled, starts, range(len(lengths))),
        "span": span,
        "by_position": [100 * hit / number if number else None for hit, number in zip(hits, labels)],
        "labels_by_position": labels.astype(int).tolist(),
    }


def by_group(right: np.ndarray, labelled: np.ndarray, groups: Sequence[str]) -> dict:
    """The labels of each group. The arguments are [N]: a boolean, a boolean and a name for every token."""
    import numpy as np

    names, which = np.unique(np.array(groups)[labelled], return_inverse=True)
    labels, hits = np.bincount(which), np.bincount(which, weights=right[labelled])
    return {
        "by_group": dict(zip(names.tolist(), (100 * hits / labels).tolist())),
        "labels_by_group": dict(zip(names.tolist(), labels.tolist())),
    }


def groups_of(dataset: EpisodeDataset, task: LabelledTask, kind: Kind) -> list[str]:
    """[N]: the group of every token of a split."""
    assert kind.groups is not None, "the kind has groups"
    symbols = [task.dictionary[token] for token in dataset.tokens]
    return [group for begin, end in pairwise(dataset.starts) for group in kind.groups(symbols[begin:end])]


if __name__ == "__main__":
    main()
