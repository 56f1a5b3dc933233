"""Levels of symbols: a line of text becomes symbols between spaces, and back.

The symbols are words for fairseq's dictionary, which splits lines at white space. So no symbol contains white space:
the space has a sign of its own, and other white space is written with its code point, such as <U+0009> for a tab.
"""

import contextlib
import io
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fairseq_plugins.errors import UserError

SPACE = "▁"  # U+2581, the sign of SentencePiece
CODE_POINT = re.compile(r"<U\+([0-9A-F]{4,6})>")
MISREAD = re.compile(
    r"(?=<s>|</s>|<pad>|<unk>|madeupword)."  # the first of a symbol that fairseq's dictionary keeps for itself
    r"|(?=<U\+)."  # the first of a code point to ``unescape``
    r"|(?=@@)."  # the first of the sign at which pieces are joined
    r"|\s"  # white space, at which symbols are split
)

NUMBERS = [str(byte) for byte in range(256)]
WORDS = 500_000  # whose pieces are kept; memory must not grow with the text


def escape(character: str) -> str:
    """The code point of a character: "\\t" becomes <U+0009>."""
    return f"<U+{ord(character):04X}>"


def unescape(symbol: str) -> str:
    """``symbol`` with characters for their code points. Other numbers, which a model may sample, stay as they are."""
    return CODE_POINT.sub(_character, symbol)


def _character(code_point: re.Match) -> str:
    number = int(code_point[1], 16)
    is_character = number <= sys.maxunicode and not 0xD800 <= number <= 0xDFFF  # surrogates cannot be written
    return chr(number) if is_character else code_point[0]


def safe(symbol: str) -> str:
    """``symbol`` with code points for the characters that would be misread; ``unescape`` brings it back."""
    return MISREAD.sub(lambda match: escape(match[0]), symbol)


@dataclass(frozen=True)
class Bytes:
    """The bytes of the line in UTF-8, as decimal numbers. Every line can be written and comes back as it was.

    Bytes that are not UTF-8 are written too, if the line was decoded with the error handler "surrogateescape".
    """

    def encode(self, line: str) -> str:
        return " ".join(map(NUMBERS.__getitem__, line.encode(errors="surrogateescape")))

    def decode(self, symbols: str) -> str:
        """Symbols that are no byte are left out. Bytes that are not UTF-8 become U+FFFD. A model may sample both."""
        numbers = (int(symbol) for symbol in symbols.split() if symbol.isdecimal())
        return bytes(number for number in numbers if number < 256).decode(errors="replace")


@dataclass(frozen=True)
class Characters:
    """Single characters.

    Args:
        space: the symbol of the space. The character itself is then written with its code point
    """

    space: str = SPACE

    def __post_init__(self):
        if len(self.space) != 1 or self.space.isspace():
            raise ValueError(f"{self.space!r:.50} cannot be the symbol of the space")

    def encode(self, line: str) -> str:
        return " ".join(map(self._symbol, line))

    def decode(self, symbols: str) -> str:
        return "".join(" " if symbol == self.space else unescape(symbol) for symbol in symbols.split())

    def _symbol(self, character: str) -> str:
        if character == " ":
            return self.space
        return escape(character) if character == self.space or character.isspace() else character


@dataclass(frozen=True)
class Words:
    """Words between white space. Only single spaces between words come back."""

    def encode(self, line: str) -> str:
        return " ".join(map(safe, line.split()))

    def decode(self, symbols: str) -> str:
        return " ".join(map(unescape, symbols.split()))


def join_pieces(symbols: str) -> str:
    """The words of pieces, where a piece ends with @@ if it is not the last of its word."""
    return Words().decode(f"{symbols} ".replace("@@ ", ""))


@dataclass(frozen=True)
class BytePairs:
    """Pieces of words by byte pair encoding (Sennrich et al., 2016). A piece ends with @@ if it is not the last of its
    word.

    Args:
        codes: the file that subword-nmt has learned
        glossaries: words that are never split or escaped, such as <unk>
    """

    codes: Path
    glossaries: tuple[str, ...] = ()

    def encode(self, line: str) -> str:
        return " ".join(map(_pieces(self.codes, self.glossaries), line.split()))

    def decode(self, symbols: str) -> str:
        return join_pieces(symbols)


@dataclass(frozen=True)
class SentencePieces:
    """Pieces of the line, spaces included, by a model of SentencePiece (Kudo and Richardson, 2018). Its sign of the
    space is U+2581; a text's own is encoded as its code point.

    Args:
        model: the file that SentencePiece has learned
    """

    model: Path

    def encode(self, line: str) -> str:
        return " ".join(map(safe, _sentence_piece_processor(self.model).encode(_hide_signs(line), out_type=str)))

    def decode(self, symbols: str) -> str:
        return _show_signs(_sentence_piece_processor(self.model).decode(list(map(unescape, symbols.split()))))

    def symbols(self) -> list[str]:
        """All that ``encode`` may write."""
        pieces = _sentence_piece_processor(self.model)
        ids = (number for number in range(len(pieces)) if not pieces.is_control(number))
        return [safe(pieces.id_to_piece(number)) for number in ids if not pieces.is_unknown(number)]


def _hide_signs(line: str) -> str:
    """Code points for U+2581, and for the first character of what would be read as such a code point."""
    return re.sub(rf"{SPACE}|<(?=U\+(?:2581|003C)>)", lambda sign: escape(sign[0]), line)


def _show_signs(line: str) -> str:
    return re.sub(r"<U\+(2581|003C)>", _character, line)


@lru_cache
def _pieces(codes: Path, glossaries: tuple[str, ...]):
    """A function from a word to its pieces, which do not depend on the words around it."""
    encoder = _byte_pair_encoder(codes, glossaries)

    @lru_cache(WORDS)
    def encode(word: str) -> str:
        encoder.cache.clear()  # it has no limit of its own
        return encoder.process_line(word if word in glossaries else safe(word))

    return encode


def _byte_pair_encoder(codes: Path, glossaries: tuple[str, ...]):
    from subword_nmt.apply_bpe import BPE  # imported late: not every command needs it

    said = io.StringIO()  # subword-nmt prints and ends the process where a line of the codes is not a pair
    try:
        with open(codes, encoding="utf-8") as file, contextlib.redirect_stderr(said):
            return BPE(file, glossaries=list(glossaries))
    except OSError as error:
        raise UserError(f"{codes} cannot be read ({error.strerror}): check the path.") from error
    except (SystemExit, Exception) as error:
        why = said.getvalue().partition("\n")[0].removeprefix("Error: ") or error
        raise UserError(
            f"{codes} is damaged, or not of byte pair encoding ({why}): copy it from the folder where the text was"
            " prepared."
        ) from error


@lru_cache
def _sentence_piece_processor(model: Path):
    from sentencepiece import SentencePieceProcessor

    try:
        return SentencePieceProcessor(model_file=str(model))
    except (OSError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        raise UserError(
            f"{model} is damaged, or not a model of SentencePiece ({why}): copy it from the folder where the text was"
            " prepared."
        ) from error


def settings_of(part: Any) -> dict[str, Any]:
    """The settings of a level or a tokeniser, but for files."""
    return {name: value for name, value in vars(part).items() if not isinstance(value, Path)}


Level = Bytes | Characters | Words | BytePairs | SentencePieces
# the name of bits per symbol in a log; a byte of enwik8 is called a character, too
BITS = {
    Bytes: "bpc", Characters: "bpc", Words: "bits_per_word",
    BytePairs: "bits_per_piece", SentencePieces: "bits_per_piece",
}  # fmt: skip
LEVELS = {"byte": Bytes, "char": Characters, "word": Words, "bpe": BytePairs, "sentencepiece": SentencePieces}


def guess(symbols: list[str]) -> Bytes | Characters | Words:
    """The level that has these symbols; Characters as in char-PTB and text8."""
    if all(symbol.isdecimal() and int(symbol) < 256 for symbol in symbols):
        return Bytes()
    return Characters(space="_") if all(len(symbol) == 1 for symbol in symbols) else Words()


def bits_name(symbols: list[str]) -> str:
    """The name of bits per symbol, for a text of unknown preparation that has these symbols."""
    pieces = any(symbol.endswith("@@") or (len(symbol) > 1 and symbol.startswith(SPACE)) for symbol in symbols)
    return BITS[BytePairs] if pieces else BITS[type(guess(symbols))]
