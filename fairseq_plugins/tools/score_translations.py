"""Tokenised BLEU and sacreBLEU of fairseq-generate's output; with --baseline, a significance test.

    python -m fairseq_plugins.tools.score_translations generated.txt --lang en --lowercase \
        --references data/multi30k/test.de-en.ref --json score.json
    python -m fairseq_plugins.tools.score_translations ours.txt --baseline theirs.txt --lang en --references ...
    python -m fairseq_plugins.tools.score_translations generated.txt --compound-split     # WMT14 En-De's convention
    python -m fairseq_plugins.tools.score_translations generated.txt --lang de --references ... --tokenise-references

Tokenised BLEU is the score that fairseq-generate prints. With --compound-split, hypotheses and references are first
split at hyphens inside words (Vaswani et al., 2017; Ott et al., 2018). With --references, sacreBLEU of the detokenised
hypotheses against the raw references is printed, too, with its signature; --lowercase ignores case, for models of
lower-cased text. The preparation may have changed the references of tokenised BLEU, for example their punctuation. With
--tokenise-references it is computed a second time, against the raw references, tokenised only. The test against a
baseline is sacreBLEU's paired bootstrap (Koehn, 2004).
"""

import argparse
from pathlib import Path

from fairseq_plugins.files.whole import write_json
from fairseq_plugins.ranges import whole
from fairseq_plugins.tools.lib.bleu import compare, raw_score, sacrebleu_scores, tokenised_scores
from fairseq_plugins.tools.lib.generation_log import read_generation, read_references


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generated", type=Path, help="output of fairseq-generate")
    parser.add_argument("--references", type=Path, help="raw references, one per line, for sacreBLEU")
    parser.add_argument("--lang", help="target language, for the detokeniser")
    parser.add_argument("--lowercase", action="store_true", help="ignore case in sacreBLEU")
    parser.add_argument(
        "--compound-split", action="store_true", help="split compounds before tokenised BLEU (WMT14 En-De)"
    )
    parser.add_argument(
        "--tokenise-references", action="store_true", help="tokenised BLEU against the raw references, too"
    )
    parser.add_argument("--baseline", type=Path, help="output of fairseq-generate for the system to compare with")
    parser.add_argument("--samples", type=whole(1), default=1000, help="number of bootstrap samples (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the scores there, too")
    args = parser.parse_args()

    if args.references and not args.lang:
        parser.error("--references needs --lang, the target language, to detokenise the hypotheses; add it.")
    if args.tokenise_references and not args.references:
        parser.error("--tokenise-references needs --references and --lang; add them.")
    if args.baseline and not args.references:
        parser.error("--baseline compares sacreBLEU scores; add --references and --lang.")

    examples = read_generation(args.generated)
    scores = tokenised_scores(examples, args.compound_split)
    how = ", compounds split" if args.compound_split else ""
    print(f"tokenised BLEU{how} = {scores['bleu']:.2f} ({scores['sentences']} sentences)")
    if args.references:
        references = read_references(args.references, len(examples))
        if args.tokenise_references:
            scores["bleu_raw_references"] = raw_score(examples, references, args.lang, args.compound_split)
            print(f"the same against raw references = {scores['bleu_raw_references']:.2f}")
        scores |= sacrebleu_scores(examples, references, args.lang, args.lowercase)
        print(f"sacreBLEU = {scores['sacrebleu']:.2f} {scores['signature']}")
    if args.baseline:
        baseline = read_generation(args.baseline)
        read_references(args.references, len(baseline))
        test = compare(examples, baseline, references, args.lang, args.lowercase, args.samples)
        scores["paired_bootstrap"] = test
        print(
            f"baseline sacreBLEU = {test['baseline']:.2f}; difference {test['difference']:+.2f}, p = {test['p']:.4f} "
            f"(paired bootstrap, {args.samples} samples)"
        )
    if args.json:
        write_json(args.json, scores)


if __name__ == "__main__":
    main()
