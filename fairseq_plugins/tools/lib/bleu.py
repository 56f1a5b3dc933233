"""Tokenised BLEU, plain and after compound splitting: shared by the tools that report it."""

import re

from sacrebleu.metrics import BLEU


def tokenised_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU of the tokens as they are, without smoothing: what multi-bleu.perl and fairseq-score compute."""
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(hypotheses, [references]).score


def split_compounds(line: str) -> str:
    """``a-b`` becomes three tokens: the convention of the WMT14 En-De scores since Vaswani et al. (2017).

    As there, matches do not overlap, so the second hyphen stays in ``a-b-c`` but not in ``aa-bb-cc``.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)
