"""Tokenised BLEU, with and without compound splitting, sacreBLEU and chrF: shared by the tools that score
translations."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from fairseq_plugins.errors import UserError
from fairseq_plugins.text import languages
from fairseq_plugins.text.tokenisers import Moses
from fairseq_plugins.tools.lib.generation_log import Example

# sacreBLEU's tokenisers, by ISO 639-1; 13a is for all languages with spaces between words
SACREBLEU_TOKENISERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
ISO_639_3 = {"zho": "zh", "cmn": "zh", "yue": "zh", "wuu": "zh", "lzh": "zh", "jpn": "ja", "kor": "ko"}


def tokenised_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU of the given tokens, without smoothing, as multi-bleu.perl and fairseq-score compute it."""
    return score_of_tokens(hypotheses, references).score


def score_of_tokens(hypotheses: list[str], references: list[str]):
    """The same as sacreBLEU's object, which has the ratio of the lengths, too."""
    from sacrebleu.metrics import BLEU

    return BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(hypotheses, [references])


def split_compounds(line: str) -> str:
    """Split ``a-b`` into three tokens, the convention of WMT14 En-De scores since Vaswani et al. (2017).

    Matches do not overlap, as in that convention: the second hyphen of ``a-b-c`` stays, that of ``aa-bb-cc`` does not.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def tokenised_scores(examples: list[Example], compound_split: bool = False, language: str = "en") -> dict:
    """Tokenised BLEU against the references of the log, and the number of tokens divided by theirs. Raw text without
    spaces between words has neither."""
    scores = {"compound_split": compound_split, "sentences": len(examples)}
    targets: Iterable[str] = [example.target for example in examples]
    if examples[0].raw:
        if not languages.has_spaces(targets):
            return scores
        targets = map(Moses(language).tokenise, targets)
    found = token_score(examples, targets, compound_split, language)
    return {"bleu": found.score, "length_ratio": found.ratio, **scores}


def raw_score(examples: list[Example], references: list[str], language: str, compound_split: bool = False) -> float:
    """Tokenised BLEU against raw references, which are tokenised here."""
    return token_score(examples, map(Moses(language).tokenise, references), compound_split, language).score


def token_score(examples: list[Example], targets: Iterable[str], compound_split: bool, language: str):
    """sacreBLEU's score against tokens. Raw hypotheses are tokenised by Moses."""
    split = split_compounds if compound_split else str
    hypotheses: Iterable[str] = [example.hypothesis for example in examples]
    if examples[0].raw:
        hypotheses = map(Moses(language).tokenise, hypotheses)
    return score_of_tokens([*map(split, hypotheses)], [*map(split, targets)])


def sacrebleu_scores(
    examples: list[Example], references: list[str], language: str, lowercase: bool = False, tokenise: str | None = None
) -> dict:
    """sacreBLEU and chrF of the raw hypotheses against raw references, and their signatures. If the tokeniser for the
    language is not installed, chrF only, and "no_sacrebleu", a sentence that says so.

    Args:
        language: of the references, such as zh or zh_CN
        tokenise: a tokeniser of sacreBLEU's; None: the one for the language
    """
    from sacrebleu.metrics import CHRF

    hypotheses, chrf = raw_text(examples, language), CHRF(lowercase=lowercase)
    scores = {"chrf": chrf.corpus_score(hypotheses, [references]).score, "chrf_signature": str(chrf.get_signature())}
    try:
        bleu = bleu_metric(references, language, lowercase, tokenise)
    except UserError as error:
        if tokenise:  # by name
            raise
        return {"no_sacrebleu": str(error), **scores}
    score = bleu.corpus_score(hypotheses, [references]).score
    return {"sacrebleu": score, "signature": str(bleu.get_signature()), **scores}


def compare(
    examples: list[Example],
    baseline: list[Example],
    references: list[str],
    language: str,
    lowercase: bool = False,
    samples: int = 1000,
    tokenise: str | None = None,
) -> dict:
    """sacreBLEU's paired bootstrap: the difference, and the probability p that it is due to chance."""
    from sacrebleu.significance import PairedTest

    systems: list[tuple[str, Sequence[str]]] = [
        ("baseline", raw_text(baseline, language)),
        ("system", raw_text(examples, language)),
    ]
    metric = bleu_metric(references, language, lowercase, tokenise)
    _, table = PairedTest(systems, {"BLEU": metric}, [references], "bs", samples)()
    before, after = cast(Any, table["BLEU"])
    # sacreBLEU finds a significant difference between equal systems, since their resamples never differ
    p = after.p_value if after.score != before.score else 1.0
    return {"baseline": before.score, "difference": after.score - before.score, "p": p, "samples": samples}


def raw_text(examples: list[Example], language: str, part: str = "hypothesis") -> list[str]:
    """The hypotheses, or the references of the log (part "target"), as raw text. Moses brings tokens back."""
    lines = [getattr(example, part) for example in examples]
    return lines if examples[0].raw else [*map(Moses(language).detokenise, lines)]


def bleu_metric(references: list[str], language: str, lowercase: bool, tokenise: str | None):
    """sacreBLEU's BLEU. Raises UserError if the tokeniser needs what is not there: packages, or a download."""
    from sacrebleu.metrics import BLEU

    tokenise = tokenise or sacrebleu_tokeniser(language, references)
    try:
        return BLEU(lowercase=lowercase, tokenize=tokenise)
    except OSError as error:
        raise UserError(
            f"sacreBLEU's tokeniser {tokenise} has to be downloaded once, which failed ({error}): use it with a network"
            " first, or choose another one, such as --tokenise 13a."
        ) from None
    except RuntimeError as error:  # "Please install ..."
        if not tokenise.endswith("-mecab"):
            raise
        raise UserError(
            f"sacreBLEU's tokeniser {tokenise} is not installed: pip install 'sacrebleu[{tokenise[:2]}]', or choose"
            " another one, such as --tokenise char."
        ) from error


def sacrebleu_tokeniser(language: str, references: list[str]) -> str:
    """sacreBLEU's tokeniser for the language; if the name is unknown, for the script of the references."""
    code = re.split("[-_]", language.lower())[0]
    code = ISO_639_3.get(code, code)
    if code in SACREBLEU_TOKENISERS:
        return SACREBLEU_TOKENISERS[code]
    if languages.has_spaces(references):
        return "13a"
    return SACREBLEU_TOKENISERS.get(languages.by_script(references) or "", "char")
