"""Raw text becomes symbols between spaces, and the encodings that need learning are learned."""

import multiprocessing
import random
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import subwords
from tqdm import tqdm

from fairseq_plugins.text.levels import BytePairs, SentencePieces, safe
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.reading import LONGEST, read_text
from fairseq_plugins.text.tokenisers import Plain

SAMPLE = 20_000_000  # bytes of the training text that an encoding is learned from
BLOCK = 2**18  # characters that a process encodes at once


def learn_byte_pairs(train: Path, tokeniser: Plain, symbols: int, output: Path) -> str:
    """Learn a byte pair encoding of ``symbols`` symbols, the characters that occur included."""
    from subword_nmt.learn_bpe import learn_bpe

    words = (" ".join(map(safe, line.split())) for line in sample(train, tokeniser))
    with open(output, "w", encoding="utf-8") as file:
        learn_bpe(words, file, symbols, total_symbols=True)
    with open(output, encoding="utf-8") as file:
        merges = sum(1 for _ in file) - 1
    return f"{symbols} symbols requested, {merges} merges learned from {_sampled(train)}"


def learn_sentence_pieces(train: Path, tokeniser: Plain, symbols: int, output: Path) -> str:
    """Learn a SentencePiece model of at most ``symbols`` symbols. It brings every line back as it was: nothing is
    normalised, and a character that has no symbol is written as its bytes."""
    lines = sample(train, tokeniser)
    exact = {"add_dummy_prefix": False, "remove_extra_whitespaces": False, "max_sentence_length": 2 * LONGEST}
    number = subwords.learn_sentence_pieces(lines, output, symbols, **exact)
    return f"{symbols} symbols requested, {number} learned from {_sampled(train)}"


def sentence_pieces(model: Path) -> list[str]:
    """All symbols that a SentencePiece model may write."""
    from sentencepiece import SentencePieceProcessor

    pieces = SentencePieceProcessor(model_file=str(model))
    ids = [number for number in range(len(pieces)) if not pieces.is_control(number) and not pieces.is_unknown(number)]
    return [safe(pieces.id_to_piece(number)) for number in ids]


LEARNED = {"bpe": (BytePairs, "codes.bpe", learn_byte_pairs)}
LEARNED["sentencepiece"] = (SentencePieces, "sentencepiece.model", learn_sentence_pieces)


def sample(train: Path, tokeniser: Plain) -> Iterator[str]:
    """The lines of a text, or of SAMPLE bytes of it, drawn with a fixed seed."""
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
        multiprocessing.Pool(workers) as pool,
        tqdm(desc=f"{raw.name}: encode", unit=" blocks", disable=None, leave=False) as bar,
    ):
        blocks = _blocks(raw, prepared.errors)
        while group := list(islice(blocks, 4 * workers)):  # imap would read on where writing is slow, without a limit
            file.writelines(pool.map(partial(_encode_block, prepared), group, chunksize=1))
            bar.update(len(group))
    return f"{raw.stat().st_size} bytes in, {output.stat().st_size} bytes of symbols out"


def _encode_block(prepared: PreparedText, pieces: list[str]) -> str:
    return "".join(
        prepared.encode(piece.removesuffix("\n")) + ("\n" if piece.endswith("\n") else " ") for piece in pieces
    )


def _blocks(raw: Path, errors: str) -> Iterator[list[str]]:
    block, characters = [], 0
    for piece in read_text(raw, errors):
        block.append(piece)
        characters += len(piece)
        if characters >= BLOCK:
            yield block
            block, characters = [], 0
    yield block
