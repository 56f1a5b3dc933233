"""ROUGE of summaries: shared by the tools that report it."""

from fairseq_plugins.text.tokenisers import SENTENCE_END, Moses

NAMES = {
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeLsum": "ROUGE-L sum (of sentences)",
    "rougeL": "ROUGE-L (one sequence)",
}


def rouge(hypotheses: list[str], references: list[str], language: str = "en", raw: bool = False) -> dict[str, float]:
    """The mean F1 in percent, by the names of rouge-score. References are plain text; hypotheses too if ``raw``, else
    Moses tokens."""
    from rouge_score.rouge_scorer import RougeScorer

    detokenise = str.strip if raw else Moses(language).detokenise
    scorer = RougeScorer(list(NAMES), use_stemmer=True)
    scores = [
        scorer.score(_lines(reference), _lines(hypothesis, detokenise))
        for reference, hypothesis in zip(references, hypotheses, strict=True)
    ]
    return {kind: 100 * sum(score[kind].fmeasure for score in scores) / len(scores) for kind in NAMES}


def _lines(summary: str, function=str.strip) -> str:
    """The sentences on lines of their own, as rougeLsum needs them."""
    return "\n".join(function(sentence) for sentence in summary.split(SENTENCE_END))
