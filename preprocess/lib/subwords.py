"""The two kinds of symbols for parallel text: byte pair encoding of Moses tokens, and SentencePiece of raw lines.

A class for each kind says how a language is tokenised before, learns from training text, and gives the level of
``fairseq_plugins/text/levels.py`` that encodes with the learned model.
"""

import argparse
import io
import itertools
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from fairseq_plugins.options.ranges import whole
from fairseq_plugins.text.levels import BytePairs, SentencePieces
from fairseq_plugins.text.tokenisers import Moses, Plain
from lib import own_model, raw_text
from lib.steps import UserError

SENTENCEPIECE = "sentencepiece"
BYTE_PAIRS = {"model": "bpe"}  # in the options of a step; earlier versions learned unigram models
LINES = 2_000_000  # SentencePiece learns from a sample of so many lines: more need much memory and change little
LONGEST = 2**16  # bytes of a line that SentencePiece gets whole: it is slow with longer ones, and fails at longer words
RESERVED = "\u2585"  # SentencePiece leaves lines with this sign out
# Parts of a line, each of at most LONGEST bytes, which end before spaces if words allow
PARTS = re.compile(rf"[^{RESERVED}]{{1,{LONGEST // 4}}}(?=[ {RESERVED}]|\Z)|[^{RESERVED}]{{1,{LONGEST // 4}}}")


@dataclass(frozen=True)
class BytePairEncoding:
    """Joint byte pair encoding (Sennrich et al., 2016) of Moses tokens.

    Args:
        merges: how many are learned
        whole: words that are never split
    """

    merges: int
    whole: tuple[str, ...] = ()
    name, file = "bpe", "codes.bpe"

    @property
    def settings(self) -> dict:
        return asdict(self)

    def tokeniser(self, language: str, lower: bool, normalise: bool) -> Moses:
        return Moses(language, lower, normalise)

    def learn(self, texts: list[Path], path: Path) -> str:
        return raw_text.learn_codes(texts, path, self.merges)

    def level(self, path: Path) -> BytePairs:
        return BytePairs(path, self.whole)


@dataclass(frozen=True)
class SentencePiece:
    """Joint byte pair encoding of raw lines by SentencePiece, for any language. Rare characters are spelt as bytes.

    Args:
        symbols: how many are learned
        whole: words that are never split
    """

    symbols: int
    whole: tuple[str, ...] = ()
    name, file = SENTENCEPIECE, "sentencepiece.model"

    @property
    def settings(self) -> dict:
        return asdict(self) | BYTE_PAIRS

    def tokeniser(self, language: str, lower: bool, normalise: bool) -> Plain:
        return Plain(lower)

    def learn(self, texts: list[Path], path: Path) -> str:
        lines = itertools.chain.from_iterable(map(raw_text.read_lines, texts))
        names = ", ".join(text.name for text in texts)
        number = learn_sentence_pieces(lines, path, self.symbols, names, user_defined_symbols=list(self.whole))
        return f"{self.symbols} symbols requested, {number} symbols learned from {names}"

    def level(self, path: Path) -> SentencePieces:
        return SentencePieces(path)


@dataclass(frozen=True)
class Own:
    """Symbols by a model of the user's own, which is copied and not learned.

    Args:
        kind: the kind that would be learned
        model: the file
    """

    kind: BytePairEncoding | SentencePiece
    model: Path

    @property
    def settings(self) -> dict:
        return {"whole": self.kind.whole, "own": self.model.name}

    def learn(self, texts: list[Path], path: Path) -> str:
        return own_model.take(self.model, map(raw_text.read_lines, texts), path)

    def __getattr__(self, name: str):
        return getattr(self.kind, name)


def learn_sentence_pieces(lines: Iterable[str], path: Path, symbols: int, source: str, **options) -> int:
    """Learn a model of SentencePiece from the lines. Returns its number of symbols, which are fewer than requested if
    the text has no more.

    Args:
        source: the file of the lines, for errors
        options: more options of SentencePiece's trainer

    Raises:
        UserError: the characters and bytes alone are more symbols, or SentencePiece cannot learn from the lines
    """
    import sentencepiece  # imported late: not every preparation needs it

    sentencepiece.set_random_generator_seed(1)  # of the sample
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=itertools.chain.from_iterable(map(parts, lines)),
            model_writer=model,
            model_type="bpe",  # its unigram models lack many of the most frequent words
            vocab_size=symbols,
            unk_piece=RESERVED,  # so that <unk>, <s> and </s> in a text are text
            bos_id=-1,
            eos_id=-1,
            max_sentence_length=LONGEST,
            hard_vocab_limit=False,
            byte_fallback=True,
            normalization_rule_name="identity",  # so that raw text comes back
            input_sentence_size=LINES,
            num_threads=16,  # also where there are fewer cores, since sums depend on it
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        raise UserError(_fault(str(error), symbols, source)) from None
    path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).vocab_size()


def parts(line: str) -> list[str]:
    """The line, or parts of it if SentencePiece would leave it out."""
    if RESERVED not in line and len(line.encode()) <= LONGEST:
        return [line]
    return PARTS.findall(line)


def _fault(said: str, symbols: int, source: str) -> str:
    """A sentence for an error of SentencePiece's trainer."""
    if needed := re.search(r"smaller than required_chars\. \d+ vs (\d+)", said):
        return (
            f"--symbols {symbols} is too small: the characters and bytes alone are {needed[1]} symbols; choose"
            " more, for example 8000."
        )
    if "sentences_.empty()" in said or "all_chars_count" in said:
        return f"{source}: SentencePiece has nothing to learn from, only empty lines and spaces: give more text."
    return f"{source}: SentencePiece cannot learn from this text ({said.strip()}): give other text, or more."


def add_options(parser: argparse.ArgumentParser, size: int, pieces: bool = False) -> None:
    """Add --bpe and --symbols, with ``size`` merges or symbols by default.

    Args:
        pieces: SentencePiece is the default
    """
    default = f"{SENTENCEPIECE}, with --symbols" if pieces else size
    parser.add_argument(
        "--bpe",
        type=_merges_or_sentencepiece,
        metavar="N|sentencepiece",
        help="number of merges of the joint byte pair encoding of Moses tokens; or the word sentencepiece, for pieces "
        f"of raw lines, which come back exactly in any language ({default})",
    )
    parser.add_argument(
        "--symbols", type=whole(1), metavar="N", help=f"number of symbols with --bpe sentencepiece ({size})"
    )
    own_model.add_option(parser)
    parser.set_defaults(size=size, pieces=pieces)


def choose(args, unspaced: list[str], whole: tuple[str, ...] = ()) -> BytePairEncoding | SentencePiece | Own:
    """The kind of symbols that --model, --bpe and --symbols ask for. If they do not say, SentencePiece where it is the
    default, and where a language is written without spaces between words.

    Args:
        unspaced: the languages without spaces between words

    Raises:
        UserError: the options contradict each other, or the language
    """
    check(args)
    if args.model:
        return _own(args, unspaced, whole)
    if isinstance(args.bpe, int) and unspaced:
        raise UserError(
            f"--bpe {args.bpe} needs words, but '{unspaced[0]}' is written without spaces between words: give --bpe"
            " sentencepiece, or split it into words yourself and name all splits with --tokenised."
        )
    if args.bpe == SENTENCEPIECE or args.symbols or unspaced or (args.pieces and not args.bpe):
        if unspaced and not args.bpe and not args.pieces:
            print(f"'{unspaced[0]}' is written without spaces between words: taking --bpe sentencepiece", flush=True)
        return SentencePiece(args.symbols or args.size, whole)
    return BytePairEncoding(args.bpe or args.size, whole)


def check(args) -> None:
    """Raises UserError if --model, --bpe and --symbols contradict each other, or --model names no such file."""
    if args.model:
        if args.symbols or isinstance(args.bpe, int):
            flag = "--symbols" if args.symbols else "--bpe"
            raise UserError(f"--model {args.model} has its symbols already: leave out {flag}.")
        if not isinstance(own_model.level_of(args.model), SentencePieces) and args.bpe == SENTENCEPIECE:
            raise UserError(f"--model {args.model} holds byte pair codes: leave out --bpe sentencepiece.")
    elif isinstance(args.bpe, int) and args.symbols:
        raise UserError(
            f"--bpe {args.bpe} and --symbols {args.symbols} exclude each other: --symbols belongs to --bpe"
            " sentencepiece."
        )


def _own(args, unspaced: list[str], whole: tuple[str, ...]) -> Own:
    level = own_model.level_of(args.model)
    pieces = isinstance(level, SentencePieces)
    if unspaced and not pieces:
        raise UserError(
            f"--model {args.model} holds byte pair codes, but '{unspaced[0]}' is written without spaces between words:"
            " give a model of SentencePiece."
        )
    if missing := set(whole) - set(level.symbols()) if pieces else ():
        raise UserError(f"--model {args.model} has no piece {min(missing)}: train it with --user_defined_symbols.")
    return Own(SentencePiece(0, whole) if pieces else BytePairEncoding(0, whole), args.model)


def _merges_or_sentencepiece(text: str):
    if text == SENTENCEPIECE:
        return text
    try:
        return whole(1)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or {SENTENCEPIECE}") from None
