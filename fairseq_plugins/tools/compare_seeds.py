r"""Is the difference between two systems larger than the differences between seeds?

    python -m fairseq_plugins.tools.compare_seeds --references data/multi30k/test.de-en.ref --lang en --lowercase \
        --system feedback-seed{1,2,3}/test.txt --baseline transformer-seed{1,2,3}/test.txt

Reads fairseq-generate's output for each seed. Prints as Markdown: tokenised BLEU of every run, its mean and spread
(largest minus smallest), and sacreBLEU's paired bootstrap for the two runs of each seed. In a language without spaces
between words, which has no tokenised BLEU, sacreBLEU takes its place.
"""

import itertools
import statistics
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib import markdown_text
from fairseq_plugins.tools.lib.bleu import compare, sacrebleu_scores, tokenised_scores
from fairseq_plugins.tools.lib.command import Command, each_once
from fairseq_plugins.tools.lib.generation_log import read_generation, read_references, refuse_other_test_set


def main():
    parser = Command(__doc__)
    for flag, words in (("--system", "output of fairseq-generate, a file per seed"), ("--baseline", "the same for it")):
        parser.option(flag, Path, None, "FILE", words, nargs="+", required=True)
    parser.add_argument("--references", type=Path, required=True, help="raw references, one per line")
    parser.add_argument("--lang", required=True, help="target language, for Moses and sacreBLEU")
    parser.switch("--lowercase", "ignore case in sacreBLEU")
    parser.option("--names", str, ["system", "baseline"], "NAME", "the two systems in the table", nargs=2)
    args = parser.parse()
    if len(args.system) != len(args.baseline):
        raise UserError(
            f"--system has {len(args.system)} files and --baseline {len(args.baseline)}: give one file of"
            " each per seed."
        )
    if args.names[0] == args.names[1]:
        raise UserError(f"--names: both systems are called {args.names[0]}; give each a name of its own.")
    paths = [*each_once("--system", args.system), *each_once("--baseline", args.baseline)]
    runs = [read_generation(path) for path in paths]
    for path, run in zip(paths, runs):
        refuse_other_test_set(path, run, paths[0], runs[0])
    examples = dict(zip(args.names, (runs[: len(args.system)], runs[len(args.system) :])))
    references = read_references(args.references, len(runs[0]))
    print("\n".join(table(examples, references, args.lang, args.lowercase)))


def table(examples: dict, references: list[str], language: str, lowercase: bool) -> list[str]:
    """Lines of Markdown. ``examples`` maps the names of the system and the baseline, in this order, to the examples of
    each seed."""
    scores = {
        name: [
            sacrebleu_scores(run, references, language, lowercase) | tokenised_scores(run, language=language)
            for run in runs
        ]
        for name, runs in examples.items()
    }
    for run in itertools.chain(*scores.values()):
        run.setdefault("bleu", run["sacrebleu"])
    header = ["", "BLEU, each seed", "mean", "spread", "sacreBLEU, mean", "chrF, mean"]
    rows = []
    for name, runs in scores.items():
        bleu = [run["bleu"] for run in runs]
        means = [statistics.mean(run[metric] for run in runs) for metric in ("sacrebleu", "chrf")]
        numbers = [statistics.mean(bleu), max(bleu) - min(bleu), *means]
        rows.append([name, ", ".join(f"{b:.2f}" for b in bleu), *(f"{number:.2f}" for number in numbers)])
    (system, runs), (baseline, others) = examples.items()
    tests = [compare(run, other, references, language, lowercase) for run, other in zip(runs, others)]
    difference, spread = verdict(scores[system], scores[baseline])
    inside = "within" if abs(difference) <= spread else "larger than"
    return [
        *markdown_text.table(header, rows).splitlines(),
        "",
        f"Mean difference in BLEU, {system} - {baseline}: {difference:+.2f}"
        + (f", {inside} the spread of {spread:.2f} between seeds." if len(runs) > 1 else " (one seed)."),
        "Paired bootstrap of sacreBLEU, one seed each: "
        + "; ".join(f"{test['difference']:+.2f} (p = {test['p']:.3f})" for test in tests)
        + ".",
        f"sacreBLEU signature: {next(iter(scores.values()))[0]['signature']}",
    ]


def verdict(system: list[dict], baseline: list[dict]) -> tuple[float, float]:
    """The difference of the mean BLEU scores, and the larger one of the two spreads."""
    a, b = ([run["bleu"] for run in runs] for runs in (system, baseline))
    return statistics.mean(a) - statistics.mean(b), max(max(a) - min(a), max(b) - min(b))


if __name__ == "__main__":
    main()
