"""Tokenised BLEU and sacreBLEU of fairseq-generate's output; with --baseline, whether the difference is chance.

    python -m fairseq_plugins.tools.score_translations generated.txt --lang en --lowercase \
        --references data/multi30k/test.de-en.ref --json score.json
    python -m fairseq_plugins.tools.score_translations ours.txt --baseline theirs.txt --lang en --references ...
    python -m fairseq_plugins.tools.score_translations generated.txt --compound-split     # WMT14 En-De's convention
    python -m fairseq_plugins.tools.score_translations generated.txt --lang de --references ... --tokenise-references

Tokenised BLEU is what fairseq-generate prints; with --compound-split hypotheses and references are both split at
hyphens inside words first (Vaswani et al., 2017; Ott et al., 2018). With --references there is sacreBLEU too, of the
detokenised hypotheses against the raw references, printed with its signature; --lowercase ignores case, for models of
lower-cased text. Preparation may have changed the references that tokenised BLEU sees, their punctuation for example:
--tokenise-references has it against the raw ones too, tokenised and nothing else. The test against a baseline is
sacreBLEU's paired bootstrap (Koehn, 2004).
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from fairseq_plugins.files.whole import write_json
from fairseq_plugins.ranges import whole
from fairseq_plugins.tools.lib.bleu import split_compounds, tokenised_bleu
from fairseq_plugins.tools.lib.generation_log import (
    moses_detokeniser,
    moses_tokeniser,
    read_generation,
    read_references,
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generated", type=Path, help="output of fairseq-generate")
    parser.add_argument("--references", type=Path, help="raw references, one a line, for sacreBLEU")
    parser.add_argument("--lang", help="target language, for detokenising")
    parser.add_argument("--lowercase", action="store_true", help="sacreBLEU without case")
    parser.add_argument(
        "--compound-split", action="store_true", help="split compounds before tokenised BLEU (WMT14 En-De)"
    )
    parser.add_argument(
        "--tokenise-references", action="store_true", help="tokenised BLEU against the raw references too"
    )
    parser.add_argument("--baseline", type=Path, help="fairseq-generate's output of the system to compare with")
    parser.add_argument("--samples", type=whole(1), default=1000, help="bootstrap samples (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the scores there too")
    args = parser.parse_args()

    if args.references and not args.lang:
        parser.error("--references needs --lang, the target language, to detokenise the hypotheses.")
    if args.tokenise_references and not args.references:
        parser.error("--tokenise-references needs --references, the raw ones, and --lang.")
    if args.baseline and not args.references:
        parser.error("--baseline compares sacreBLEU: give --references and --lang.")

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


def tokenised_scores(examples, compound_split: bool = False) -> dict:
    """BLEU of the tokens as they are, or with compounds split."""
    bleu = token_score(examples, [example.target for example in examples], compound_split)
    return {"bleu": bleu, "compound_split": compound_split, "sentences": len(examples)}


def raw_score(examples, references: list[str], language: str, compound_split: bool = False) -> float:
    """BLEU of the tokens against raw references, which are tokenised here."""
    return token_score(examples, map(moses_tokeniser(language), references), compound_split)


def token_score(examples, targets: Iterable[str], compound_split: bool) -> float:
    split = split_compounds if compound_split else str
    return tokenised_bleu([split(example.hypothesis) for example in examples], [*map(split, targets)])


def sacrebleu_scores(examples, references, language: str, lowercase: bool = False) -> dict:
    """sacreBLEU of the detokenised hypotheses, and its signature."""
    metric = BLEU(lowercase=lowercase)
    score = metric.corpus_score(detokenise(examples, language), [references]).score
    return {"sacrebleu": score, "signature": str(metric.get_signature())}


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
