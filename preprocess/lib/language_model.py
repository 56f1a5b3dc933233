"""Shared by the corpora of language models: from text to streams of tokens, with exact counts of tokens.

    OUT/text    train, valid and test: lines of text, with single spaces between tokens
    OUT/bin     binarised: fairseq-train OUT/bin --task streaming_language_modeling

A corpus may have more steps between the two.

Each newline is an end-of-line token. A split that ends within a line has none at its end, and a corpus that is
a single line has none at all. Every step prints its numbers of lines and tokens. They must be those of the published
corpus, unless an option says that the text is another. ``OUT/bin/prepared_text.json`` says how symbols and raw text
belong together, so that evaluation can give figures for a byte of the raw text and sampling gives raw text.
"""

import argparse
import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from fairseq_plugins.files.compressed import Damaged, opened
from fairseq_plugins.text.levels import Level, settings_of
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain
from lib import binarise, locate, options, raw_text
from lib.download import Remote
from lib.steps import Steps, UserError, add_workers

SPLITS = ("train", "valid", "test")
CUT = 10_000  # tokens of a line if lines have no meaning
NOT_COMPARABLE = "this is not the text of published results: results on it are not comparable"


def prepare_bin(
    steps: Steps,
    prepared: PreparedText | None = None,
    line_ends: bool = True,
    folder: str = "text",
    splits: tuple[str, ...] = SPLITS,
    **dictionary,
) -> None:
    """Binarise ``OUT/text``, or another folder, into ``OUT/bin``.

    Args:
        prepared: how the text was prepared, which is written there, too
        line_ends: are newlines tokens? If not, no end-of-line token is left
        dictionary: options of binarise.write_dictionary
    """
    texts = [steps.out / folder / split for split in splits]
    ends = binarise.NEWLINES if line_ends else binarise.NONE
    settings = {"line_ends": line_ends, "prepared": _settings(prepared), "dictionary": str(dictionary)}
    work = partial(binarise_texts, texts, 1, ends, prepared, dictionary)
    steps.run("binarise", [*texts, *(prepared.files if prepared else [])], [steps.out / "bin"], settings, work)


def _settings(prepared: PreparedText | None) -> list[str]:
    """The settings that decide on prepared_text.json, beside the files that it names."""
    if not prepared:
        return []
    level = prepared.level
    return [type(level).__name__, str(settings_of(level)), str(prepared.source), str(prepared.raw_bytes)]


def binarise_texts(
    texts: list[Path], counted: int, ends: str, prepared: PreparedText | None, dictionary: dict, destination: Path
) -> str:
    """Binarise the texts with one dictionary.

    Args:
        counted: so many texts, from the first on, are in the dictionary
        ends: of binarise.binarise
        dictionary: options of binarise.write_dictionary
    """
    destination.mkdir()
    binarise.write_dictionary(destination / "dict.txt", binarise.count(texts[:counted]), **dictionary)
    indices = binarise.Indices(destination / "dict.txt")
    sizes = []
    for path in texts:
        made = binarise.binarise(path, destination / path.name, indices, ends)
        sizes.append(
            f"{path.name} {made.ends} line ends and {made.tokens} other tokens, {made.ends + made.tokens} in all,"
            f" {made.percent_unknown:.3}% unknown"
        )
    if prepared:
        prepared.save(destination)
    return f"dictionary {len(indices)} types; {'; '.join(sizes)}"


def ready(steps: Steps, task: str = "streaming_language_modeling") -> None:
    print(f"ready: fairseq-train {steps.out / 'bin'} --task {task}", flush=True)


# Corpora in one file, which is split into three


def prepare_file(
    doc: str,
    remotes: list[Remote],
    name: str,
    sizes: tuple[int, int, int],
    tokens_of: Callable[[bytes], Iterable[str]],
    level: Level,
    sha256: str | None = None,
    line_ends: bool = True,
) -> None:
    """The whole preparation.

    Args:
        name: of the file in --raw
        sizes: bytes of the published splits, which together make up the whole file
        tokens_of: a function from the bytes of a split to pieces of text, with spaces and newlines
        level: of the symbols
        sha256: checksum of the published file, if it is known
        line_ends: as of ``prepare_bin``
    """
    parser = options.parser(doc)
    add_workers(parser)
    parser.add_argument("--file", default=name, metavar="NAME", help="name of the file in --raw (%(default)s)")
    parser.add_argument(
        "--split",
        type=_three_sizes,
        default=sizes,
        metavar="A,B,C",
        help="for an excerpt: bytes of train, valid and test, from the start; results are then not comparable"
        f" ({','.join(map(str, sizes))})",
    )
    args, steps, raw = options.start(parser, remotes)
    file = locate.file(raw, args.file)
    if not file:
        raise UserError(
            f"--raw {raw} has no {args.file}: put it there (it may be compressed), or name another file with --file."
        )
    published = args.split == sizes
    if not published:
        print(f"--split: {NOT_COMPARABLE}", flush=True)
    outputs = [steps.out / "text" / split for split in SPLITS]
    work = partial(cut, file, args.split, published, sha256, tokens_of)
    steps.run("text", [file], outputs, {"split": args.split}, work)
    prepared = PreparedText(Plain(), Plain(), level, raw_bytes=dict(zip(SPLITS, args.split)))
    prepare_bin(steps, prepared, line_ends)
    ready(steps)


def _three_sizes(value: str) -> tuple[int, ...]:
    sizes = value.split(",")
    if len(sizes) != 3 or not all(size.isdecimal() and int(size) for size in sizes):
        raise argparse.ArgumentTypeError(f"{value} is not three numbers of bytes, such as 3600000,200000,200000")
    return tuple(map(int, sizes))


def cut(file: Path, sizes, published: bool, sha256: str | None, tokens_of, *outputs: Path) -> str:
    """Write the tokens of each split of the file. The arguments are those of ``prepare_file``."""
    try:
        with opened(file) as whole:
            content = whole.read()
    except Damaged as error:
        raise UserError(f"{file} is damaged ({error}): download it again.") from None
    if len(content) < sum(sizes) or published and len(content) > sum(sizes):
        raise UserError(
            f"{file} has {len(content)} bytes, not {sum(sizes)}: put the complete file there; for an excerpt give"
            " the bytes of train, valid and test with --split."
        )
    if published and sha256 and hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(f"{file} has the right size but not the published content: download it again.")
    start = 0
    for path, size in zip(outputs, sizes):
        with open(path, "w", encoding="ascii", newline="\n") as output:
            output.writelines(tokens_of(content[start : start + size]))
        start += size
    report = ", ".join(f"{split} {size}" for split, size in zip(SPLITS, sizes))
    return f"{file.name} {len(content)} bytes in, {report} out"


# Corpora in three files of lines


def files_parser(doc: str) -> argparse.ArgumentParser:
    parser = options.parser(doc)
    add_workers(parser)
    any_size = "accept text of any size; results are then not comparable"
    parser.add_argument("--any-size", action="store_true", help=any_size)
    return parser


def lines(args, steps: Steps, raw: Path, name: str, sizes: dict[str, tuple[int, int]], read_line=str.split) -> None:
    """Write ``OUT/text`` from three files.

    Args:
        name: of the files, with {split} in it
        sizes: for each published split the number of lines, and of tokens with one end-of-line token per line
        read_line: a function from a line to its tokens; it raises ValueError for a wrong line
    """
    if args.any_size:
        print(f"--any-size: {NOT_COMPARABLE}", flush=True)
    for split in SPLITS:
        file = locate.file(raw, name.format(split=split))
        if not file:
            raise UserError(f"--raw {raw} has no {name.format(split=split)}: put it there (it may be compressed).")
        expected = None if args.any_size else sizes[split]
        work = partial(_write_lines, file, read_line, expected)
        steps.run(f"text-{split}", [file], [steps.out / "text" / split], {"expected": expected}, work)


def _write_lines(file: Path, read_line, expected: tuple[int, int] | None, output: Path) -> str:
    lines = ends = tokens = 0
    with open(output, "w", encoding="utf-8", newline="\n") as text_file:
        for line in raw_text.read_lines(file, ends=True):
            end = "\n" if line.endswith("\n") else ""
            try:
                words = read_line(line)
            except ValueError as error:
                raise UserError(f"{file} line {lines + 1}: {error}.") from None
            if not words and not end:
                continue  # spaces after the last newline
            text_file.write(" ".join(words) + end)
            lines, ends, tokens = lines + 1, ends + bool(end), tokens + len(words)
    if expected and (ends, tokens + ends) != tuple(expected):
        raise UserError(
            f"{file} has {ends} line ends and {tokens + ends} tokens with them, not {expected[0]} and {expected[1]}:"
            " put the published file there, or give --any-size for another text."
        )
    unended = "" if ends == lines else " (the last line has no newline)"
    return f"{file.name} {lines} lines in, {tokens} tokens and {ends} line ends out{unended}"
