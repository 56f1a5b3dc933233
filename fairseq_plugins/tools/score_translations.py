r"""Tokenised BLEU, sacreBLEU and chrF of fairseq-generate's output; with --baseline, a significance test.

    python -m fairseq_plugins.tools.score_translations generated.txt --lang en --lowercase \
        --references data/multi30k/test.de-en.ref --json score.json
    python -m fairseq_plugins.tools.score_translations ours.txt --baseline theirs.txt --lang en --references ...
    python -m fairseq_plugins.tools.score_translations generated.txt --compound-split     # WMT14 En-De's convention
    python -m fairseq_plugins.tools.score_translations generated.txt --lang de --references ... --tokenise-references
    python -m fairseq_plugins.tools.score_translations generated.txt --lang zh --references ...

Tokenised BLEU of tokens (fairseq-generate --remove-bpe) is the score that fairseq-generate prints. Raw text (--bpe
prepared, or --remove-bpe sentencepiece) is first tokenised by Moses; there is no such score in a language without
spaces between words. Raw text is known by its references, where marks stand directly behind words, or by
--prepared-text. With --compound-split, hypotheses and references are then split at hyphens inside words (Vaswani et
al., 2017; Ott et al., 2018).

With --references, sacreBLEU and chrF of the raw hypotheses against the raw references are printed, too, with their
signatures. For raw text this is done without --references as well, against the references of the data. sacreBLEU's
tokeniser is the one for --lang: zh, ja-mecab or ko-mecab, char for other languages without spaces between words, and
13a for all others; --tokenise chooses another one, such as flores200. --lowercase ignores case, for models of
lower-cased text.

The file of --json also has length_ratio, the number of tokens divided by that of the references.

The preparation may have changed the references of tokenised BLEU, for example their punctuation. With
--tokenise-references it is computed a second time, against the raw references, tokenised only. The test against a
baseline is sacreBLEU's paired bootstrap (Koehn, 2004).
"""

from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_json
from fairseq_plugins.options.ranges import whole
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.tools.lib.bleu import bleu_metric, compare, raw_score, sacrebleu_scores, tokenised_scores
from fairseq_plugins.tools.lib.command import Command, tell
from fairseq_plugins.tools.lib.generation_log import read_generation, read_references, refuse_other_test_set

# sacreBLEU's own names
TOKENISERS = ("13a", "zh", "ja-mecab", "ko-mecab", "char", "intl", "flores101", "flores200", "none")


def main():
    parser = Command(__doc__)
    parser.add_argument("generated", type=Path, help="output of fairseq-generate")
    parser.add_argument("--references", type=Path, help="raw references, one per line, for sacreBLEU")
    parser.add_argument("--lang", help="target language, for Moses and sacreBLEU")
    parser.add_argument("--tokenise", choices=TOKENISERS, help="sacreBLEU's tokeniser (default: the one for --lang)")
    words = "data folder with prepared_text.json, which joins pieces and tells raw text from tokens"
    parser.option("--prepared-text", Path, None, "DIR", words)
    parser.switch("--lowercase", "ignore case in sacreBLEU")
    parser.switch("--compound-split", "split compounds before tokenised BLEU (WMT14 En-De)")
    parser.switch("--tokenise-references", "tokenised BLEU against the raw references, too")
    parser.add_argument("--baseline", type=Path, help="output of fairseq-generate for the system to compare with")
    parser.option("--samples", whole(1), 1000, "N", "number of bootstrap samples")
    parser.add_json("write the scores there, too")
    args = parser.parse()

    if args.references and not args.lang:
        raise UserError("--references needs --lang, the target language, such as en; add it.")
    if args.tokenise_references and not args.references:
        raise UserError("--tokenise-references needs --references and --lang; add them.")
    if args.baseline and not args.references:
        raise UserError("--baseline compares sacreBLEU scores; add --references and --lang.")

    text = PreparedText.load(args.prepared_text) if args.prepared_text else None
    examples = read_generation(args.generated, text)
    scores = tokenised_scores(examples, args.compound_split, args.lang or "en")
    if "bleu" in scores:
        how = ", compounds split" if args.compound_split else ""
        print(f"tokenised BLEU{how} = {scores['bleu']:.2f} ({scores['sentences']} sentences)")
    references = read_references(args.references, len(examples)) if args.references else None
    if references and args.tokenise_references:
        scores["bleu_raw_references"] = raw_score(examples, references, args.lang, args.compound_split)
        print(f"the same against raw references = {scores['bleu_raw_references']:.2f}")
    if references is None and examples[0].raw:
        references = [example.target for example in examples]
    if references and args.baseline:
        bleu_metric(references, args.lang, args.lowercase, args.tokenise)  # refuse now what it lacks
    if references:
        scores |= sacrebleu_scores(examples, references, args.lang or "", args.lowercase, args.tokenise)
        if missing := scores.pop("no_sacrebleu", None):
            tell(f"no sacreBLEU: {missing}")
        else:
            print(f"sacreBLEU = {scores['sacrebleu']:.2f} {scores['signature']}")
        print(f"chrF = {scores['chrf']:.2f} {scores['chrf_signature']}")
    if references and args.baseline:
        baseline = read_generation(args.baseline, text)
        refuse_other_test_set(args.baseline, baseline, args.generated, examples)
        test = compare(examples, baseline, references, args.lang, args.lowercase, args.samples, args.tokenise)
        scores["paired_bootstrap"] = test
        print(
            f"baseline sacreBLEU = {test['baseline']:.2f}; difference {test['difference']:+.2f}, p = {test['p']:.4f} "
            f"(paired bootstrap, {args.samples} samples)"
        )
    if args.json:
        write_json(args.json, scores)


if __name__ == "__main__":
    main()
