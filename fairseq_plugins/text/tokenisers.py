"""Tokenisers: words and punctuation marks of a line apart, and together again."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import regex

from fairseq_plugins.text import spacing
from fairseq_plugins.text.spacing import Spacing

# A space before a mark that follows a word in Arabic, Urdu, Hindi, Amharic or Armenian: Moses splits these marks off,
# but does not bring them back. Nor does it where a non-joiner ties an ending to a quotation mark
UNKNOWN_TO_MOSES = re.compile(r" (?=[،؛؟۔٪।॥።፣፤፥፧։՝]( |$)|\u200c)")
# Signs in words that Moses takes for punctuation, beside combining marks, as ranges of regular expressions: the joiners
# of Persian, Sinhala and emoji; Armenian question and exclamation marks, which stand on a vowel; skin tones; the tags
# and selectors of emoji and Chinese characters
NON_JOINER, JOINER = "\u200c", "\u200d"
IN_WORDS = f"{NON_JOINER}{JOINER}՛՜՞\U0001f3fb-\U0001f3ff\U000e0020-\U000e01ef"


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
        whole_words: take combining marks and joiners for parts of words. Moses, and so earlier versions, splits at them
        spacing: where the training text has spaces between tokens. None: what Moses assumes
    """

    language: str
    lower: bool = False
    normalise: bool = False
    whole_words: bool = True
    spacing: Spacing | None = None

    def tokenise(self, line: str) -> str:
        whole = self.whole_words
        tokeniser = _whole_words_tokeniser(self.language) if whole else _sacremoses("MosesTokenizer", self.language)
        return self._cased(tokeniser.tokenize(self._normalised(line), return_str=True))

    def learn(self, pairs: Iterable[tuple[str, str]]) -> "Moses":
        """This tokeniser with the spacing of a text: of raw lines, each with its tokens."""
        known = ((self._cased(self._normalised(line)), _unescape(tokens).split()) for line, tokens in pairs)
        return replace(self, spacing=spacing.learn(known))

    def detokenise(self, line: str) -> str:
        by_rules = UNKNOWN_TO_MOSES.sub("", _sacremoses("MosesDetokenizer", self.language).detokenize(line.split()))
        return self.spacing.join(_unescape(line).split(), by_rules) if self.spacing else by_rules

    def _cased(self, line: str) -> str:
        return line.lower() if self.lower else line

    def _normalised(self, line: str) -> str:
        return _sacremoses("MosesPunctNormalizer", self.language).normalize(line) if self.normalise else line


def _unescape(tokens: str) -> str:
    return _sacremoses("MosesDetokenizer", "en").unescape_xml(tokens)


def beginning(line: str, words: int) -> str:
    """The first words of a line."""
    return " ".join(line.split()[:words])


@dataclass(frozen=True)
class PlainBeginning(Plain):
    """The first words of the line, such as those of an article that is to be summarised.

    Args:
        words: how many
    """

    words: int = 400

    def tokenise(self, line: str) -> str:
        return super().tokenise(beginning(line, self.words))


@dataclass(frozen=True)
class MosesBeginning(Moses):
    """The first Moses tokens of the line. Only as many words are tokenised.

    Args:
        words: how many
    """

    words: int = 400

    def tokenise(self, line: str) -> str:
        return beginning(super().tokenise(beginning(line, self.words)), self.words)


SENTENCE_END = "<q>"  # between the sentences of a summary, which is one line


@dataclass(frozen=True)
class MosesSentences(Moses):
    """Moses tokens of a summary, in which <q> between spaces stays as it is. In a sentence <q> is escaped."""

    def tokenise(self, line: str) -> str:
        return f" {SENTENCE_END} ".join(map(super().tokenise, line.split(f" {SENTENCE_END} ")))

    def detokenise(self, line: str) -> str:
        return f" {SENTENCE_END} ".join(map(super().detokenise, line.split(f" {SENTENCE_END} ")))


Tokeniser = Plain | Moses
TOKENISERS: dict[str, type[Tokeniser]] = {
    "plain": Plain,
    "plain_beginning": PlainBeginning,
    "moses": Moses,
    "moses_beginning": MosesBeginning,
    "moses_sentences": MosesSentences,
}


# sacremoses is imported late, since not every command needs it.


@lru_cache
def _sacremoses(kind: str, language: str):
    import sacremoses

    return getattr(sacremoses, kind)(language)


@lru_cache
def _whole_words_tokeniser(language: str):
    """sacremoses' tokeniser, which takes combining marks and IN_WORDS for letters. A symbol keeps the marks behind it,
    and the symbols that joiners tie to it, as in emoji. All other text has the tokens of sacremoses."""
    from sacremoses import MosesTokenizer

    tokeniser = MosesTokenizer(language)
    signs = _marks() + IN_WORDS
    symbol = rf"[^{tokeniser.IsAlnum}{signs}\s\.'\`\,\-]"
    behind = signs.replace(NON_JOINER, "")  # it belongs to the ending that follows
    tokeniser.PAD_NOT_ISALNUM = re.compile(rf"({symbol}(?:[{behind}]|(?<={JOINER}){symbol})*)"), r" \1 "
    for name in ("ENGLISH_SPECIFIC_APOSTROPHE", "FR_IT_SPECIFIC_APOSTROPHE"):
        rules = [
            (re.compile(rule.pattern.replace(tokeniser.IsAlpha, tokeniser.IsAlpha + signs)), replacement)
            for rule, replacement in getattr(tokeniser, name)
        ]
        setattr(tokeniser, name, rules)
    return tokeniser


@lru_cache
def _marks() -> str:
    """The combining marks of the first plane. All letters that Moses knows are there, too."""
    return "".join(regex.findall(r"\p{M}", "".join(map(chr, range(0x10000)))))
