"""How often Skip-Retain training skips each layer, and the age of the layer's memory.

    python -m fairseq_plugins.tools.skip_schedule linear --layers 15
    python -m fairseq_plugins.tools.skip_schedule inner --layers 8 --p 0.3

The lag of a layer's memory is the number of blocks between the last block in it and the current one: 1 if the layer was
not skipped in the block before. It has a geometric distribution with the expected value 1 / (1 - p). The factor is the
growth of the expected context in the paper (equation 6). The equation is missing from the available text of the paper;
the factor is inferred as twice the sum of all p.
"""

import argparse
import math

from fairseq_plugins.tools.lib.skip_schedule import add_schedule, skip_retain


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_schedule(parser)
    args = parser.parse_args()
    print("\n".join(table(skip_retain(args).probabilities)))


def table(probabilities: list[float]) -> list[str]:
    """Lines of Markdown: each layer, counted from 1, then totals."""
    lines = ["| layer | p | expected lag, blocks | 99th percentile |", "| --- | --- | --- | --- |"]
    for number, p in enumerate(probabilities, 1):
        lines.append(f"| {number} | {shown(p)} | {expected_lag(p):.3f} | {percentile(p)} |")
    share = sum(probabilities) / len(probabilities)
    return [
        *lines,
        "",
        f"expected share of skipped layers: {share:.3f}",
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


def context_factor(probabilities: list[float]) -> float:
    return 2 * sum(probabilities)


if __name__ == "__main__":
    main()
