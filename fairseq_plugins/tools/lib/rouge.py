"""ROUGE of summaries: shared by the tools that report it."""

import re

import regex

from fairseq_plugins.text.languages import LETTERS, LETTERS_WITHOUT_SPACES
from fairseq_plugins.text.tokenisers import SENTENCE_END, Moses

NAMES = {
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeLsum": "ROUGE-L sum (of sentences)",
    "rougeL": "ROUGE-L (one sequence)",
}


# Two ways to count, by their names in reports
ENGLISH = "Porter stemmer"  # rouge-score's own tokeniser, which reads a to z and digits only
ANY_SCRIPT = "words of any script, single characters in scripts without spaces between words, no stemmer"


class Words:
    """A tokeniser for rouge-score: words in lower case, with their combining marks and joiners. In scripts without
    spaces between words each character is a word."""

    _alone = LETTERS_WITHOUT_SPACES.pattern
    _word = regex.compile(
        rf"(?=[\p{{L}}\p{{N}}]){_alone}\p{{M}}*|(?:(?!{_alone})[\p{{L}}\p{{N}}][\p{{M}}\u200c\u200d]*)+"
    )

    def tokenize(self, text: str) -> list[str]:
        return self._word.findall(text.lower())


def tokenisation(references: list[str], language: str = "en") -> str:
    """ENGLISH for English, if most letters of the references are a to z, else ANY_SCRIPT.

    Args:
        language: such as en, en_GB or zh
    """
    text = "\n".join(references).lower()
    latin = 2 * len(re.findall("[a-z]", text)) >= len(LETTERS.findall(text))
    return ENGLISH if latin and re.split("[-_]", language)[0] in ("en", "eng") else ANY_SCRIPT


def rouge(hypotheses: list[str], references: list[str], language: str = "en", raw: bool = False) -> dict[str, float]:
    """The mean F1 in percent, by the names of rouge-score. References are plain text; hypotheses too if ``raw``, else
    Moses tokens."""
    from rouge_score.rouge_scorer import RougeScorer

    detokenise = str.strip if raw else Moses(language).detokenise
    words = Words() if tokenisation(references, language) == ANY_SCRIPT else None
    scorer = RougeScorer(list(NAMES), use_stemmer=True, tokenizer=words)
    scores = [
        scorer.score(_lines(reference), _lines(hypothesis, detokenise))
        for reference, hypothesis in zip(references, hypotheses, strict=True)
    ]
    return {kind: 100 * sum(score[kind].fmeasure for score in scores) / len(scores) for kind in NAMES}


def _lines(summary: str, function=str.strip) -> str:
    """The sentences on lines of their own, as rougeLsum needs them."""
    return "\n".join(function(sentence) for sentence in summary.split(SENTENCE_END))
