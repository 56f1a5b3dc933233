"""Tokenised BLEU after compound splitting, from fairseq-generate's output.

    fairseq-generate DATA --path CHECKPOINT --beam 5 --remove-bpe ... > generated.txt
    python -m fairseq_plugins.tools.compound_split_bleu generated.txt

Hypotheses and references are both split at hyphens inside words (Vaswani et al., 2017; Ott et al., 2018). Do not
compare with sacreBLEU's numbers: tokenised BLEU depends on the tokeniser.
"""

import argparse
from pathlib import Path

from fairseq_plugins.tools.bleu import split_compounds, tokenised_bleu
from fairseq_plugins.tools.generation_log import read_generation


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generated", type=Path, help="output of fairseq-generate")
    examples = read_generation(parser.parse_args().generated)
    bleu = tokenised_bleu(
        [split_compounds(example.hypothesis) for example in examples],
        [split_compounds(example.target) for example in examples],
    )
    print(f"BLEU after compound splitting = {bleu:.2f} ({len(examples)} sentences)")


if __name__ == "__main__":
    main()
