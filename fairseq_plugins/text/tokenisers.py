"""Tokenisers: words and punctuation marks of a line apart, and together again."""

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Plain:
    """The line as it is.

    Args:
        lower: in lower case
    """

    lower: bool = False

    def tokenise(self, line: str) -> str:
        return line.lower() if self.lower else line

    def detokenise(self, line: str) -> str:
        return line


@dataclass(frozen=True)
class Moses:
    """Moses tokens with Moses escapes, for languages with spaces between words. Hyphenated words are not split, as the
    WMT scoring of compounds expects.

    Args:
        language: such as de; it decides on abbreviations and quotation marks
        lower: in lower case
        normalise: replace unusual punctuation marks first
    """

    language: str
    lower: bool = False
    normalise: bool = False

    def tokenise(self, line: str) -> str:
        if self.normalise:
            line = _normaliser(self.language).normalize(line)
        line = _tokeniser(self.language).tokenize(line, return_str=True)
        return line.lower() if self.lower else line

    def detokenise(self, line: str) -> str:
        return _detokeniser(self.language).detokenize(line.split())


TOKENISERS = {"plain": Plain, "moses": Moses}


# sacremoses is imported late, since not every command needs it.


@lru_cache
def _normaliser(language: str):
    from sacremoses import MosesPunctNormalizer

    return MosesPunctNormalizer(language)


@lru_cache
def _tokeniser(language: str):
    from sacremoses import MosesTokenizer

    return MosesTokenizer(language)


@lru_cache
def _detokeniser(language: str):
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(language)
