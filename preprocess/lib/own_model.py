"""A SentencePiece model or byte pair codes of the user's own (--model), in place of learned ones."""

import shutil
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from fairseq_plugins.text.levels import LEVELS, BytePairs, SentencePieces, unescape
from fairseq_plugins.text.prepared import kind_of
from lib.steps import UserError

TRIED = 5000  # lines of each training text
# Share of pieces that may be unknown. Few codes merge few characters, though the text has their language.
MOST_UNKNOWN = {SentencePieces: 0.1, BytePairs: 0.5}


def add_option(parser) -> None:
    parser.add_argument(
        "--model",
        type=Path,
        metavar="FILE",
        help="a SentencePiece model, or codes of subword-nmt, of your own; nothing is learned then",
    )


def level_of(model: Path) -> BytePairs | SentencePieces:
    """The level that encodes with this file.

    Raises:
        UserError: the file cannot be read, or is none of the two
    """
    try:
        with open(model, "rb") as file:
            binary = file.read(1) == b"\n"  # the tag of a model's first field; a line of codes is not empty
    except OSError as error:
        raise UserError(f"--model {model} cannot be read ({error.strerror}): check the path.") from error
    level = SentencePieces(model) if binary else BytePairs(model)
    try:
        level.encode("a")
    except UserError as error:
        raise UserError(
            f"--model {model} is damaged, or neither a model of SentencePiece nor codes of subword-nmt: check the file."
        ) from error
    return level


def check(args) -> None:
    """Set --level to that of the file. Raises UserError if other options contradict it."""
    level = kind_of(LEVELS, level_of(args.model))
    if args.level not in (None, level):
        raise UserError(f"--model {args.model} is for --level {level}, not {args.level}: leave --level out.")
    if args.symbols:
        raise UserError(f"--model {args.model} has its symbols already: leave out --symbols.")
    args.level = level


def take(model: Path, texts: Iterable[Iterable[str]], output: Path) -> str:
    """Copy the model, and try it on lines of the training texts.

    Raises:
        UserError: the model does not know the pieces of the texts
    """
    level, pieces, unknown, lines, differ = level_of(model), 0, 0, 0, 0
    knows = _knows(level)
    for line in (line for text in texts for line in islice(text, TRIED)):
        symbols = level.encode(line)
        found = symbols.split()
        pieces += len(found)
        unknown += sum(not knows(symbol) for symbol in found)
        lines += 1
        differ += level.decode(symbols) != line
    if unknown > MOST_UNKNOWN[type(level)] * pieces:
        raise UserError(
            f"--model {model} does not know {100 * unknown / pieces:.0f} % of the pieces of this text: take a model of"
            " these languages, or leave --model out, so that one is learned."
        )
    shutil.copyfile(model, output)
    share = 100 * unknown / max(pieces, 1)
    return (
        f"{model.name}: {pieces / max(lines, 1):.1f} pieces a line, {share:.2g} % of them unknown; {differ} of {lines}"
        " lines tried do not come back"
    )


def _knows(level: BytePairs | SentencePieces) -> Callable[[str], bool]:
    """Whether a piece is of the model. Codes of byte pairs have no list of pieces, but the characters they merge."""
    if isinstance(level, SentencePieces):
        return set(level.symbols()).__contains__
    characters = set(level.codes.read_text(encoding="utf-8"))
    return lambda piece: characters.issuperset(unescape(piece.removesuffix("@@")))
