"""Tokenised BLEU and sacreBLEU of fairseq-generate's output; with --baseline, whether the difference is chance.

    python -m fairseq_plugins.tools.score_translations generated.txt --lang en --lowercase \
        --references data/multi30k/test.de-en.ref --json score.json
    python -m fairseq_plugins.tools.score_translations ours.txt --baseline theirs.txt --lang en --references ...

Tokenised BLEU is what fairseq-generate prints. sacreBLEU is of the detokenised hypotheses against the raw references,
printed with its signature; --lowercase ignores case, for models of lower-cased text. The test against a baseline is
sacreBLEU's paired bootstrap (Koehn, 2004).
"""

import argparse
from pathlib import Path

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from fairseq_plugins.tools.bleu import split_compounds, tokenised_bleu
from fairseq_plugins.tools.files import write_json
from fairseq_plugins.tools.generation_log import moses_detokeniser, read_generation, read_references


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generated", type=Path, help="output of fairseq-generate")
    parser.add_argument("--references", type=Path, required=True, help="raw references, one a line")
    parser.add_argument("--lang", required=True, help="target language, for detokenising")
    parser.add_argument("--lowercase", action="store_true", help="sacreBLEU without case")
    parser.add_argument(
        "--compound-split", action="store_true", help="split compounds before tokenised BLEU (WMT14 En-De)"
    )
    parser.add_argument("--baseline", type=Path, help="fairseq-generate's output of the system to compare with")
    parser.add_argument("--samples", type=int, default=1000, help="bootstrap samples (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the scores there too")
    args = parser.parse_args()

    examples = read_generation(args.generated)
    references = read_references(args.references, len(examples))
    scores = score(examples, references, args.lang, args.lowercase, args.compound_split)
    if args.baseline:
        baseline = read_generation(args.baseline)
        read_references(args.references, len(baseline))
        scores["paired_bootstrap"] = compare(examples, baseline, references, args.lang, args.lowercase, args.samples)
    how = ", compounds split" if args.compound_split else ""
    print(f"tokenised BLEU{how} = {scores['bleu']:.2f} ({scores['sentences']} sentences)")
    print(f"sacreBLEU = {scores['sacrebleu']:.2f} {scores['signature']}")
    if args.baseline:
        test = scores["paired_bootstrap"]
        print(
            f"baseline sacreBLEU = {test['baseline']:.2f}; difference {test['difference']:+.2f}, p = {test['p']:.4f} "
            f"(paired bootstrap, {args.samples} samples)"
        )
    if args.json:
        write_json(args.json, scores)


def score(examples, references, language: str, lowercase: bool = False, compound_split: bool = False) -> dict:
    """Both scores of one system and sacreBLEU's signature."""
    split = split_compounds if compound_split else str
    metric = BLEU(lowercase=lowercase)
    sacrebleu = metric.corpus_score(detokenise(examples, language), [references]).score
    return {
        "bleu": tokenised_bleu([split(e.hypothesis) for e in examples], [split(e.target) for e in examples]),
        "compound_split": compound_split,
        "sacrebleu": sacrebleu,
        "signature": str(metric.get_signature()),
        "sentences": len(examples),
    }


def compare(examples, baseline, references, language: str, lowercase: bool = False, samples: int = 1000) -> dict:
    """Paired bootstrap of sacreBLEU: the probability that a difference this large is chance."""
    systems = [("baseline", detokenise(baseline, language)), ("system", detokenise(examples, language))]
    _, table = PairedTest(systems, {"BLEU": BLEU(lowercase=lowercase)}, [references], "bs", samples)()
    before, after = table["BLEU"]
    # sacreBLEU calls a system different from itself, whose resamples never differ
    p = after.p_value if after.score != before.score else 1.0
    return {"baseline": before.score, "difference": after.score - before.score, "p": p, "samples": samples}


def detokenise(examples, language: str) -> list[str]:
    return [*map(moses_detokeniser(language), (example.hypothesis for example in examples))]


if __name__ == "__main__":
    main()
