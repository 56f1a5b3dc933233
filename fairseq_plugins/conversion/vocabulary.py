"""The symbols of a model in its own order, which no checkpoint holds: from a pickled corpus, a text or a list."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_plugins.conversion.reading import is_torch_file, read
from fairseq_plugins.conversion.sources import END_OF_LINE, Converted, Source
from fairseq_plugins.errors import UserError
from fairseq_plugins.text.reading import read_text


class Vocabulary(NamedTuple):
    """
    Attributes:
        symbols: in the order of the model's rows
        ends_lines: does an end of line follow each line of a text?
        notes: sentences for the user
    """

    symbols: list[str]
    ends_lines: bool
    notes: tuple[str, ...] = ()


def read_vocabulary(path: Path, source: Source, converted: Converted, data_eos: bool | None = None) -> Vocabulary:
    """The vocabulary of a model.

    Args:
        path: the corpus that the repository pickled, the training text that it counted, or a list of symbols, one a
            line, each perhaps followed by its count
        data_eos: does an end of line follow each line of a text, whatever its file tells?

    Raises:
        UserError: the file is unreadable, or does not have as many symbols as the model
    """
    if not path.is_file():
        raise UserError(f"--vocabulary {path} {'is a folder' if path.is_dir() else 'does not exist'}; give a file.")
    if is_torch_file(path):
        found = pickled_vocabulary(read(path, source.corpus_types, f"a corpus of {source.name}"), source)
    elif listed := listed_symbols(path):
        found = Vocabulary(listed, source.ends_lines(None, listed))
    else:
        found = source.counted_vocabulary(path, converted)
    if data_eos:
        found = found._replace(ends_lines=True)
    elif not found.ends_lines and END_OF_LINE in found.symbols and not is_torch_file(path):
        note = "ends of lines are taken for no tokens; give --data-eos if the repository's training had it"
        found = found._replace(notes=(*found.notes, note))
    count, wanted = len(found.symbols), converted.symbols
    if count != wanted:
        raise UserError(
            f"--vocabulary {path} has {count} symbols, but the model has {wanted}; give the corpus, the training text"
            " or the list of symbols that belongs to the checkpoint."
        )
    if len(set(found.symbols)) != count:
        twice, _ = Counter(found.symbols).most_common(1)[0]
        raise UserError(f"--vocabulary {path} has the symbol {twice!r} twice; give the file of this checkpoint.")
    return found


def pickled_vocabulary(corpus: Any, source: Source) -> Vocabulary:
    """That of a pickled corpus. Raises UserError if it is no corpus of this repository."""
    symbols = corpus
    for name in source.symbols:
        symbols = symbols.get(name) if isinstance(symbols, dict) else getattr(symbols, name, None)
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise UserError(f"--vocabulary is no corpus that {source.name} pickles; give its file, or its train.txt.")
    return Vocabulary(symbols, source.ends_lines(corpus, symbols))


def listed_symbols(path: Path) -> list[str]:
    """The symbols of a list of different symbols, one a line, each perhaps followed by its count; empty for any other
    text. Raises UserError for a list with an empty line, but at its end."""
    symbols: dict[str, int] = {}
    empty = 0
    for number, line in enumerate(read_text(path), 1):
        symbol, *count = line.split()[:3] or [""]
        if symbol in symbols or len(count) > 1 or not all(map(str.isdecimal, count)):
            return []
        if symbol:
            symbols[symbol] = number
        else:
            empty = empty or number
    if 0 < empty < max(symbols.values(), default=0):
        raise UserError(f"--vocabulary {path} has no symbol in line {empty}; write it as the repository does.")
    return list(symbols)


def words(*paths: Path) -> Iterator[str]:
    """All words of some texts, and an end of line after each line."""
    for path in paths:
        piece = "\n"
        for piece in read_text(path):
            yield from piece.split()
            if piece.endswith("\n"):
                yield END_OF_LINE
        if not piece.endswith("\n"):
            yield END_OF_LINE


def by_appearance(symbols: Iterable[str]) -> list[str]:
    """Different symbols in the order in which they first appear."""
    return list(dict.fromkeys(symbols))


def by_count(symbols: Iterable[str], first: Iterable[str] = ()) -> list[str]:
    """Different symbols by falling count. Of those with equal counts, the one that appears last comes first.

    Args:
        first: symbols that count as if they had appeared before, but not as an appearance
    """
    counts = Counter(dict.fromkeys(first, 0))
    counts.update(symbols)
    return sorted(counts, key=counts.__getitem__)[::-1]
