"""Raw text becomes symbols between spaces, and the encodings that need learning are learned."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tqdm import tqdm

from fairseq_plugins.text.levels import BytePairs, SentencePieces, safe
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.reading import read_text
from fairseq_plugins.text.tokenisers import Plain
from lib import binarise, raw_text, subwords
from lib.steps import UserError
from lib.workers import map_in_order

SAMPLE = 20_000_000  # bytes of the training text that an encoding is learned from
CHUNK = 2**18  # characters that a process encodes at once
WORD_END = "</w>"  # subword-nmt's mark in codes


def learn_byte_pairs(train: Path, tokeniser: Plain, symbols: int, output: Path) -> str:
    """Learn a byte pair encoding of ``symbols`` symbols, the characters that occur included."""
    words = (" ".join(map(safe, line.split())) for line in sample(train, tokeniser))
    merges = raw_text.learn_merges(words, output, symbols, "symbols")
    if not merges:
        raise UserError(
            f"no pair of symbols of {train} could be made a symbol: give more text, more than --symbols {symbols}, or"
            " another --level."
        )
    return f"{symbols} symbols requested, {merges} merges learned from {_sampled(train)}"


def learn_sentence_pieces(train: Path, tokeniser: Plain, symbols: int, output: Path) -> str:
    """Learn a SentencePiece model of at most ``symbols`` symbols. It brings every line back as it was: nothing is
    normalised, and a character that has no symbol is written as its bytes."""
    lines = sample(train, tokeniser)
    exact = {"add_dummy_prefix": False, "remove_extra_whitespaces": False}
    number = subwords.learn_sentence_pieces(lines, output, symbols, train.name, **exact)
    return f"{symbols} symbols requested, {number} learned from {_sampled(train)}"


def byte_pairs(codes: Path, train: Path) -> list[str]:
    """All symbols that a byte pair encoding may write for text of the characters that occur in train.

    Args:
        train: the symbols of the text, between spaces. The codes may come from a sample of this text
    """
    characters = set()
    for chunk in binarise.read_chunks(train, f"{train.name}: characters"):
        characters.update(chunk.replace("@@ ", " "))
    characters = {character for character in characters if not character.isspace()}
    with open(codes, encoding="utf-8") as file:
        next(file)  # the version
        merges = ["".join(line.split()) for line in file]
    last = {merge.removesuffix(WORD_END) for merge in merges if merge.endswith(WORD_END)}
    inner = {merge for merge in merges if not merge.endswith(WORD_END)}
    return sorted(characters | last | {f"{symbol}@@" for symbol in characters | inner})


LEARNED = {"bpe": (BytePairs, "codes.bpe", learn_byte_pairs)}
LEARNED["sentencepiece"] = (SentencePieces, "sentencepiece.model", learn_sentence_pieces)


def sample(train: Path, tokeniser: Plain) -> Iterator[str]:
    """The lines of a text, or a sample of about SAMPLE bytes, drawn with a fixed seed."""
    share = SAMPLE / train.stat().st_size
    draw = random.Random(1)
    for line in read_text(train):
        if share >= 1 or draw.random() < share:
            yield tokeniser.tokenise(line.removesuffix("\n"))


def _sampled(train: Path) -> str:
    size = train.stat().st_size
    return f"{train.name}, {size} bytes" if size <= SAMPLE else f"a sample of {SAMPLE} of the {size} bytes"


def encode(prepared: PreparedText, raw: Path, workers: int, output: Path) -> str:
    """Write the symbols of each line of the text. If the last line has no newline, none is written."""
    with (
        open(output, "w", encoding="utf-8", newline="\n") as file,
        tqdm(desc=f"{raw.name}: encode", unit=" chunks", disable=None, leave=False) as bar,
    ):
        for chunk in map_in_order(partial(_encode_chunk, prepared), _chunks(raw, prepared.errors), workers):
            file.write(chunk)
            bar.update()
    return f"{raw.stat().st_size} bytes in, {output.stat().st_size} bytes of symbols out"


def _encode_chunk(prepared: PreparedText, pieces: list[str]) -> str:
    return "".join(
        prepared.encode(piece.removesuffix("\n")) + ("\n" if piece.endswith("\n") else " ") for piece in pieces
    )


def _chunks(raw: Path, errors: str) -> Iterator[list[str]]:
    chunk, characters = [], 0
    for piece in read_text(raw, errors):
        chunk.append(piece)
        characters += len(piece)
        if characters >= CHUNK:
            yield chunk
            chunk, characters = [], 0
    yield chunk
