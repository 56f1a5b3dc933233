"""The age of memories in Skip-Retain training, by layer: expected from the probability, and in 1,000 updates.

python benchmarks/skip_ages.py
"""

import paths  # noqa: F401  finds the suite

from fairseq_plugins.modules.transformer_xl.skip_retain import SkipRetain
from fairseq_plugins.tools.skip_schedule import expected_lag, lags, percentile

UPDATES = 1000
COLUMNS = ["layer", "probability to skip it", "expected age", "expected 99th percentile"]
COLUMNS += ["mean age in 1,000 updates", "oldest in 1,000 updates"]


def main():
    skip = SkipRetain("linear", 15, 0.1, seed=1)
    print(f"| {' | '.join(COLUMNS)} |\n{'| --- ' * len(COLUMNS)}|")
    for layer, (p, ages) in enumerate(zip(skip.probabilities, zip(*lags(skip, UPDATES))), 1):
        mean = sum(ages) / UPDATES
        print(f"| {layer} | {p:.3f} | {expected_lag(p):.2f} | {percentile(p)} | {mean:.2f} | {max(ages)} |")


if __name__ == "__main__":
    main()
