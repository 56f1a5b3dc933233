"""From raw text, in one or many files, to one file for each of train, valid and test."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from fairseq_plugins.files.compressed import plain_name
from fairseq_plugins.text.reading import read_text
from lib import locate, raw_text
from lib.steps import UserError

SPLITS = ("train", "valid", "test")
BORDERS = ("line", "document")  # where a text may be cut; a document ends at an empty line and at the end of a file


def find(raw: list[Path]) -> dict[str | None, list[Path]]:
    """The files of each split; or all files for None, if no name says which split a file is of. Files come in the order
    of ``raw``, those of a folder in the order of their names.

    A file is of a split if its own name, or that of a folder that it is in, is train, valid or test, with any ending.
    The folder may be one of several in ``raw``, or below one.

    Raises:
        UserError: there is no such file, a file is named twice, or some of the files are named and others are not
    """
    found: dict[str | None, list[Path]] = {}
    texts: dict[str, Path] = {}
    for path in raw:
        for file in _files(path):
            text = file.resolve().with_name(plain_name(file.resolve())).as_posix()
            if text in texts:
                raise UserError(f"--raw names {texts[text]} and {file}, which is the same text: leave one of them out.")
            texts[text] = file
            parts = file.relative_to(path).parts
            named = (*parts, Path(os.path.abspath(path)).name) if len(raw) > 1 or not parts else parts
            split = next((name for part in named if (name := part.split(".")[0].lower()) in SPLITS), None)
            found.setdefault(split, []).append(file)
    if not found:
        raise UserError(f"--raw {raw[0]} holds no files: put the text there.")
    for text, file in texts.items():
        if text.endswith(".labels") and f"{text.removesuffix('.labels')}.txt" in texts:
            raise UserError(f"--raw: {file} has labels of a text: take preprocess/labelled_text.py, or leave it out.")
    if None in found and len(found) > 1:
        raise UserError(
            f"--raw: {found[None][0]} is of no split, but {next(files for name, files in found.items() if name)[0]} is:"
            " name all files train, valid or test, or give the files one by one."
        )
    if None not in found and (missing := {"train", "valid"} - found.keys()):
        raise UserError(
            f"--raw has no file named {min(missing)}: add it; or, if the text is not split yet, rename it, so that"
            " it is not named train, valid or test."
        )
    return found


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise UserError(f"--raw {path} does not exist: give a file or a folder with text.")
    if path.is_file():
        return [path]
    files = (file for folder in locate.folders(path) for file in folder.iterdir() if file.is_file())
    return sorted(file for file in files if not file.name.startswith("."))


def join(files: dict[str, list[Path]], errors: str, *outputs: Path) -> str:
    """Write the files of each split one after the other.

    Args:
        errors: the error handler for bytes that are not UTF-8
    """
    reports = []
    for (split, paths), output in zip(files.items(), outputs, strict=True):
        with open(output, "wb") as text:
            for piece, _ in _pieces(paths, errors):
                text.write(piece)
        _check(output, split, "its files are empty: put the text there")
        reports.append(f"{split} {len(paths)} file{'s' * (len(paths) > 1)}, {output.stat().st_size} bytes")
    return "; ".join(reports)


def cut(files: list[Path], shares: dict[str, float], border: str, errors: str, *outputs: Path) -> str:
    """Cut the text, all files one after the other: the last part is for testing, the part before it for validation.

    Args:
        shares: the part of the text that each split gets, in bytes; a split begins at the first border after it
        border: one of BORDERS
        errors: the error handler for bytes that are not UTF-8
    """
    total = sum(map(raw_text.size, files))
    begins = [total * sum(list(shares.values())[:number]) for number in range(len(shares))]
    position = split = parts = 0
    with ExitStack() as stack:
        texts = [stack.enter_context(open(output, "wb")) for output in outputs]
        for piece, after in _pieces(files, errors):
            if after == "document" or after == border:
                parts += 1
                split += split + 1 < len(texts) and position >= begins[split + 1]
            texts[split].write(piece)
            position += len(piece)
    for name, output in zip(shares, outputs):
        _check(output, name, _way_out(position, parts, border, name, len(outputs)))
    sizes = ", ".join(f"{name} {output.stat().st_size}" for name, output in zip(shares, outputs))
    return f"{len(files)} file{'s' * (len(files) > 1)}, {position} bytes in, {sizes} bytes out"


def _way_out(size: int, parts: int, border: str, split: str, needed: int) -> str:
    """The way out if a text of so many bytes, and lines or documents, leaves nothing for a split."""
    if not size:
        return "the text is empty: put text into its files"
    more = "; --split-at line cuts at every line" if border == "document" else ""
    if parts < needed:
        few = f"a single {border}" if parts == 1 else f"only {parts} {border}s"
        return f"the text is {few}: break it into more {border}s, or name files train, valid and test{more}"
    return f"the text has too few {border}s: raise --{split}-share, or name files train, valid and test{more}"


def _check(output: Path, split: str, sentence: str) -> None:
    if not output.stat().st_size:
        raise UserError(f"nothing is left for {split}: {sentence}.")


def _pieces(files: list[Path], errors: str) -> Iterator[tuple[bytes, str | None]]:
    """The lines of all files, or pieces of long lines, each with what ended before it: a document, a line, or None. The
    last line of a file gets a newline if it lacks one, but for the last file."""
    for file in files:
        after, empty, ended = "document", False, True
        for piece in read_text(file, errors):
            yield piece.encode(errors=errors), after
            empty = ended and not piece.strip()
            ended = piece.endswith("\n")
            after = ("document" if empty else "line") if ended else None
        if not ended and file != files[-1]:
            yield b"\n", None
