"""How often Skip-Retain training skips each layer, and how old that makes its memory.

    python -m fairseq_plugins.tools.skip_schedule linear --layers 15
    python -m fairseq_plugins.tools.skip_schedule inner --layers 8 --p 0.3

The lag of a layer's memory is the number of blocks from the one that it ends with to the present one: 1 if the layer
was not skipped in the block before. It is geometric: expected 1 / (1 - p), and at most the 99th percentile in 99 of 100
updates. The factor is by how much the paper says the expected context grows (equation 6): the equation is missing from
the text that we have, and the factor is inferred as twice the sum of all p.
"""

import argparse

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.transformer_xl.skip_retain import SCHEDULES, SkipRetain
from fairseq_plugins.ranges import RANGES, SEED, whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_schedule(parser)
    args = parser.parse_args()
    print("\n".join(table(skip_retain(args).probabilities)))


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """Options that ``skip_retain`` takes."""
    parser.add_argument("schedule", choices=SCHEDULES, help="equations 1 to 5: linear, uniform, not-first, ...")
    parser.add_argument("--layers", type=whole(1), required=True, metavar="N", help="of the model")
    parser.add_argument("--p", type=RANGES["skip_p"], default=0.1, help="of the schedules that take one (%(default)s)")
    parser.add_argument("--seed", type=SEED, default=1, help="of the coins (%(default)s)")


def skip_retain(args) -> SkipRetain:
    """Raises UserError for what no model has."""
    if args.layers < 1:
        raise UserError(f"--layers {args.layers} is too small; choose at least 1.")
    if not 0 <= args.p < 1:
        raise UserError(f"--p {args.p} is out of range; choose at least 0 and less than 1.")
    return SkipRetain(args.schedule, args.layers, args.p, args.seed)


def table(probabilities: list[float]) -> list[str]:
    """Lines of Markdown: each layer, counted from 1, then what they add up to."""
    lines = ["| layer | p | expected lag, blocks | 99th percentile |", "| --- | --- | --- | --- |"]
    for number, p in enumerate(probabilities, 1):
        lines.append(f"| {number} | {p:.4g} | {expected_lag(p):.3f} | {percentile(p)} |")
    share = sum(probabilities) / len(probabilities)
    return [
        *lines,
        "",
        f"expected share of skipped layers: {share:.3f}",
        f"the paper's context factor (inferred: 2 x the sum of p): {context_factor(probabilities):.3f}",
    ]


def expected_lag(p: float) -> float:
    return 1 / (1 - p)


def percentile(p: float, part: float = 0.99) -> int:
    """The least lag that a memory does not exceed in such a part of the updates."""
    lag = 1
    while p**lag > 1 - part + 1e-12:
        lag += 1
    return lag


def context_factor(probabilities: list[float]) -> float:
    return 2 * sum(probabilities)


def lags(skip: SkipRetain, updates: int) -> list[list[int]]:
    """Each layer's lag in blocks, update by update from the first, with a block an update."""
    skip.train()
    lag, history = [1] * len(skip.probabilities), []
    for update in range(updates):
        skip.set_num_updates(update)
        history.append(lag)
        lag = [before + 1 if skipped else 1 for before, skipped in zip(lag, skip.skipped())]
    return history


if __name__ == "__main__":
    main()
