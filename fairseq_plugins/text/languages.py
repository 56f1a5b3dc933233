"""Languages that are written without spaces between words, such as Chinese, Japanese and Thai."""

import itertools
from collections.abc import Iterable

import regex

# Scripts whose languages put no spaces between words; spaces in them end phrases, or syllables
WITHOUT_SPACES = (
    "Han Hiragana Katakana Bopomofo Thai Lao Khmer Myanmar Tibetan Tai_Le New_Tai_Lue Tai_Tham Javanese Balinese"
).split()
LETTERS = regex.compile(r"[\p{L}\p{M}]")
LETTERS_WITHOUT_SPACES = regex.compile("[{}]".format("".join(rf"\p{{Script={name}}}" for name in WITHOUT_SPACES)))
KANA = regex.compile(r"[\p{Script=Hiragana}\p{Script=Katakana}]")
HAN = regex.compile(r"\p{Script=Han}")
SAMPLE = 1000  # lines that decide


def has_spaces(lines: Iterable[str]) -> bool:
    """Has the language of these lines spaces between words? The scripts of the first lines decide."""
    text = _sample(lines)
    return 2 * len(LETTERS_WITHOUT_SPACES.findall(text)) <= len(LETTERS.findall(text))


def by_script(lines: Iterable[str]) -> str | None:
    """ja for kana, zh for Chinese characters without kana, None for other scripts: of a text without spaces between
    words."""
    text = _sample(lines)
    return "ja" if KANA.search(text) else "zh" if HAN.search(text) else None


def _sample(lines: Iterable[str]) -> str:
    return "\n".join(itertools.islice(lines, SAMPLE))


def words(line: str) -> int:
    """The number of words between spaces."""
    return len(line.split())


def words_and_letters(line: str) -> int:
    """The number of words, where each letter of a script without spaces counts as a word."""
    return words(LETTERS_WITHOUT_SPACES.sub(" x ", line))
