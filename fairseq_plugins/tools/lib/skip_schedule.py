"""Skip-Retain schedules from the command line, and the age of the memory that they lead to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fairseq_plugins.options.ranges import RANGES, SEED, whole

if TYPE_CHECKING:
    from fairseq_plugins.modules.transformer_xl.skip_retain import SkipRetain


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``skip_retain`` reads."""
    parser.add_argument("schedule", type=schedule, help="equations 1 to 5: linear, uniform, not-first, not-last, inner")
    parser.add_argument("--layers", type=whole(1), required=True, metavar="N", help="number of layers of the model")
    parser.add_argument(
        "--p", type=RANGES["skip_p"], default=0.1, help="probability to skip a layer; linear takes none (%(default)s)"
    )
    parser.add_argument("--seed", type=SEED, default=1, help="--seed of the training (%(default)s)")


def schedule(name: str) -> str:
    from fairseq_plugins.modules.transformer_xl.skip_retain import SCHEDULES

    if name not in SCHEDULES:
        raise argparse.ArgumentTypeError(f"{name} is no schedule; choose from {', '.join(SCHEDULES)}")
    return name


def skip_retain(args) -> SkipRetain:
    """The schedule that the options describe."""
    from fairseq_plugins.modules.transformer_xl.skip_retain import SkipRetain

    return SkipRetain(args.schedule, args.layers, args.p, args.seed)


def lags(skip: SkipRetain, updates: int) -> list[list[int]]:
    """The lag of each layer in blocks, for every update from the first, with one block per update."""
    skip.train()
    lag, history = [1] * len(skip.probabilities), []
    for update in range(updates):
        skip.set_num_updates(update)
        history.append(lag)
        lag = [before + 1 if skipped else 1 for before, skipped in zip(lag, skip.skipped())]
    return history
