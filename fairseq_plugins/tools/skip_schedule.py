"""How often Skip-Retain training skips each layer, and the age of the layer's memory.

    python -m fairseq_plugins.tools.skip_schedule linear --layers 15
    python -m fairseq_plugins.tools.skip_schedule inner --layers 8 --p 0.3

The lag of a layer's memory is the number of blocks between the last block in it and the current one: 1 if the layer was
not skipped in the block before. It has a geometric distribution with the expected value 1 / (1 - p). The factor is the
growth of the expected context in the paper (equation 6). The equation is missing from the available text of the paper;
the factor is inferred as twice the sum of all p.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from fairseq_plugins.files.whole import write_json
from fairseq_plugins.options.ranges import RANGES, SEED, whole
from fairseq_plugins.tools.lib import markdown_text
from fairseq_plugins.tools.lib.command import Command

if TYPE_CHECKING:
    from fairseq_plugins.modules.transformer_xl.skip_retain import SkipRetain


def main():
    parser = Command(__doc__)
    add_schedule(parser)
    parser.add_json("write the share and the factor there, too")
    args = parser.parse()
    probabilities = skip_retain(args).probabilities
    print("\n".join(table(probabilities)))
    if args.json:
        share, factor = skipped_share(probabilities), context_factor(probabilities)
        write_json(args.json, {"skipped_layers": round(share, 3), "context_factor": round(factor, 3)})


def add_schedule(parser: Command) -> None:
    """Add the options that ``skip_retain`` reads."""
    parser.add_argument("schedule", type=schedule, help="equations 1 to 5: linear, uniform, not-first, not-last, inner")
    parser.option("--layers", whole(1), None, "N", "number of layers of the model", required=True)
    parser.option("--p", RANGES["skip_p"], 0.1, "P", "probability to skip a layer; linear takes none")
    parser.option("--seed", SEED, 1, "SEED", "--seed of the training")


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


def table(probabilities: list[float]) -> list[str]:
    """Lines of Markdown: each layer, counted from 1, then totals."""
    rows = [
        [str(layer), shown(p), f"{expected_lag(p):.3f}", str(percentile(p))] for layer, p in enumerate(probabilities, 1)
    ]
    return [
        *markdown_text.table(["layer", "p", "expected lag, blocks", "99th percentile"], rows).splitlines(),
        "",
        f"expected share of skipped layers: {skipped_share(probabilities):.3f}",
        f"the paper's context factor (inferred: 2 x the sum of p): {context_factor(probabilities):.3f}",
    ]


def shown(p: float) -> str:
    """Four digits, or all of a p that would be shown as 1."""
    return f"{p:.4g}" if float(f"{p:.4g}") < 1 else str(p)


def expected_lag(p: float) -> float:
    return 1 / (1 - p)


def percentile(p: float, part: float = 0.99) -> int:
    """The smallest lag that is not exceeded in this part of the updates."""
    return max(1, math.ceil(math.log(1 - part + 1e-12) / math.log(p))) if p else 1


def skipped_share(probabilities: list[float]) -> float:
    return sum(probabilities) / len(probabilities)


def context_factor(probabilities: list[float]) -> float:
    return 2 * sum(probabilities)


if __name__ == "__main__":
    main()
