"""Tokenised BLEU, with and without compound splitting, and sacreBLEU: shared by the tools that score translations."""

import re
from collections.abc import Iterable

from fairseq_plugins.tools.lib.generation_log import moses_detokeniser, moses_tokeniser


def tokenised_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU of the given tokens, without smoothing, as multi-bleu.perl and fairseq-score compute it."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(hypotheses, [references]).score


def split_compounds(line: str) -> str:
    """Split ``a-b`` into three tokens, the convention of WMT14 En-De scores since Vaswani et al. (2017).

    Matches do not overlap, as in that convention: the second hyphen of ``a-b-c`` stays, that of ``aa-bb-cc`` does not.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def tokenised_scores(examples, compound_split: bool = False) -> dict:
    """Tokenised BLEU against the tokenised references, with or without compound splitting."""
    bleu = token_score(examples, [example.target for example in examples], compound_split)
    return {"bleu": bleu, "compound_split": compound_split, "sentences": len(examples)}


def raw_score(examples, references: list[str], language: str, compound_split: bool = False) -> float:
    """Tokenised BLEU against raw references, which are tokenised here."""
    return token_score(examples, map(moses_tokeniser(language), references), compound_split)


def token_score(examples, targets: Iterable[str], compound_split: bool) -> float:
    split = split_compounds if compound_split else str
    return tokenised_bleu([split(example.hypothesis) for example in examples], [*map(split, targets)])


def sacrebleu_scores(examples, references, language: str, lowercase: bool = False) -> dict:
    """sacreBLEU of the detokenised hypotheses, and its signature."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=lowercase)
    score = metric.corpus_score(detokenise(examples, language), [references]).score
    return {"sacrebleu": score, "signature": str(metric.get_signature())}


def compare(examples, baseline, references, language: str, lowercase: bool = False, samples: int = 1000) -> dict:
    """sacreBLEU's paired bootstrap: the difference, and the probability p that it is due to chance."""
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    systems = [("baseline", detokenise(baseline, language)), ("system", detokenise(examples, language))]
    _, table = PairedTest(systems, {"BLEU": BLEU(lowercase=lowercase)}, [references], "bs", samples)()
    before, after = table["BLEU"]
    # sacreBLEU finds a significant difference between equal systems, since their resamples never differ
    p = after.p_value if after.score != before.score else 1.0
    return {"baseline": before.score, "difference": after.score - before.score, "p": p, "samples": samples}


def detokenise(examples, language: str) -> list[str]:
    return [*map(moses_detokeniser(language), (example.hypothesis for example in examples))]
