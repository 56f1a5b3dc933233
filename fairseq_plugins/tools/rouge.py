"""ROUGE-1, -2 and -L (F1, stemmed) of fairseq-generate's summaries.

    python -m fairseq_plugins.tools.rouge generated.txt \
        --references data/cnndm/test.article-highlights.ref --json rouge.json

Two kinds of L are in use: the summary-level one that the CNN-DailyMail papers report, over sentences (rouge-score's
rougeLsum, printed as ROUGE-L sum), and the one over the summary as a single sentence (ROUGE-L). Sentences are
separated by <q> in hypotheses and references alike; Moses tokens are joined and unescaped before scoring.
"""

import argparse
from pathlib import Path

from rouge_score.rouge_scorer import RougeScorer

from fairseq_plugins.files.whole import write_json
from fairseq_plugins.tools.lib.generation_log import moses_detokeniser, read_generation, read_references

SENTENCE_END = "<q>"
NAMES = {
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeLsum": "ROUGE-L sum (of sentences)",
    "rougeL": "ROUGE-L (one sequence)",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generated", type=Path, help="output of fairseq-generate")
    parser.add_argument(
        "--references", type=Path, required=True, help="raw summaries, one a line, sentences separated by <q>"
    )
    parser.add_argument("--lang", default="en", help="for detokenising (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the scores there too")
    args = parser.parse_args()
    examples = read_generation(args.generated)
    references = read_references(args.references, len(examples))
    scores = rouge([example.hypothesis for example in examples], references, args.lang)
    for kind, name in NAMES.items():
        print(f"{name} = {scores[kind]:.2f}")
    print(f"({len(examples)} summaries, F1, Porter stemmer, rouge-score)")
    if args.json:
        write_json(args.json, scores)


def rouge(hypotheses: list[str], references: list[str], language: str = "en") -> dict[str, float]:
    """Mean F1 in percent, by rouge-score's names. Hypotheses are Moses tokens, references raw."""
    detokenise = moses_detokeniser(language)
    scorer = RougeScorer(list(NAMES), use_stemmer=True)
    scores = [
        scorer.score(_lines(reference), _lines(hypothesis, detokenise))
        for reference, hypothesis in zip(references, hypotheses, strict=True)
    ]
    return {kind: 100 * sum(score[kind].fmeasure for score in scores) / len(scores) for kind in NAMES}


def _lines(summary: str, function=str.strip) -> str:
    """Sentences by line, as rougeLsum wants them."""
    return "\n".join(function(sentence) for sentence in summary.split(SENTENCE_END))


if __name__ == "__main__":
    main()
