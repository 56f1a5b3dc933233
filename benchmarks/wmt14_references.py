"""BLEU of made-up translations of newstest2014, with normalised references and with the references as they are.

    python benchmarks/wmt14_references.py newstest2014.de      # the raw file, one sentence a line

A translation here is the normalised reference with a share of its words replaced by others of the text.
"""

import argparse
import random
from pathlib import Path

import paths  # noqa: F401  finds the suite

from fairseq_plugins.text.tokenisers import Moses
from fairseq_plugins.tools.lib.bleu import split_compounds, tokenised_bleu


def score(texts: list[str], references: list[str]) -> float:
    return tokenised_bleu([*map(split_compounds, texts)], [*map(split_compounds, references)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("references", type=Path)
    lines = parser.parse_args().references.read_text(encoding="utf-8").splitlines()
    raw, normalised = ([*map(Moses("de", normalise=each).tokenise, lines)] for each in (False, True))
    print(f"{sum(map(str.__ne__, raw, normalised))} of {len(lines)} lines differ\n")
    print("| words replaced | BLEU, normalised references | BLEU, references as they are |\n| --- | --- | --- |")
    words = [word for line in normalised for word in line.split()]
    for share in (0, 0.1, 0.2, 0.3, 0.4):
        draw = random.Random(1)
        texts = [
            " ".join(draw.choice(words) if draw.random() < share else word for word in line.split())
            for line in normalised
        ]
        print(f"| {share:.0%} | {score(texts, normalised):.2f} | {score(texts, raw):.2f} |")


if __name__ == "__main__":
    main()
