"""The folder of a model is complete: what its text needs is copied there from the data folder."""

import filecmp
import os
import shutil
from dataclasses import replace
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.text.prepared import FILE, PreparedText, folder_of
from fairseq_plugins.text.tokenisers import Moses


def refuse_other_text(data: Path, folder: Path) -> None:
    """
    Raises:
        UserError: the folder holds checkpoints of a text that was prepared otherwise than that of the data folder
    """
    if any(folder.glob("checkpoint*.pt")) and holds_other_text(data, folder):
        raise UserError(f"{folder} holds a model of differently prepared text: give another --save-dir.")


def holds_other_text(data: Path, folder: Path) -> bool:
    """Does a folder hold files of a text that was prepared otherwise than that of the data folder?"""
    if not (data / FILE).is_file():
        return False
    if (folder / FILE).is_file():
        return _preparation(data) != _preparation(folder)
    return any(_differ(data / dictionary.name, dictionary) for dictionary in folder.glob("dict*.txt"))


def refuse_other_symbols(data: Path, checkpoint: Path) -> None:
    """
    Raises:
        UserError: beside the checkpoint lies a dictionary whose symbols differ from those of the data folder's, so the
            model would take one symbol for another
    """
    for dictionary in folder_of(checkpoint).glob("dict*.txt"):
        if _differ(data / dictionary.name, dictionary):
            raise UserError(
                f"{checkpoint} is of a text with other symbols than {data}, as their {dictionary.name} shows: give the"
                " data folder of its training, or prepare the text again as it was for that."
            )


def _preparation(folder: Path) -> tuple:
    """What text and symbols of a model must have in common with its data: all but the sizes of the splits, and how
    often each symbol occurs."""
    text = PreparedText.load(folder)
    settings = {name: value for name, value in vars(text.level).items() if not isinstance(value, Path)}
    symbols = {path.name: _symbols(path) for path in folder.glob("dict*.txt")}
    learned = [file.read_bytes() for file in text.files]
    sides = {"source": _of_any_version(text.source), "target": _of_any_version(text.target)}
    return replace(text, level=type(text.level), raw_bytes={}, **sides), settings, learned, symbols


def _of_any_version(tokeniser):
    """Earlier versions split words at combining marks. Where a text has such words, its symbols differ."""
    return replace(tokeniser, whole_words=True) if isinstance(tokeniser, Moses) else tokeniser


def _differ(one: Path, other: Path) -> bool:
    """Are both dictionaries there, with different symbols?"""
    return one.is_file() and not os.path.samefile(one, other) and _symbols(one) != _symbols(other)


def _symbols(dictionary: Path) -> list[bytes]:
    """Without how often they occur."""
    lines = dictionary.read_bytes().replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    return [line.rsplit(b" ", 1)[0] for line in lines]


def keep_with_checkpoints(data: Path, folder: Path) -> None:
    """Copy ``prepared_text.json``, the files that it names, and the dictionaries from the data folder, unless
    identical files are there. Nothing is copied from a data folder without ``prepared_text.json``."""
    if not (data / FILE).is_file() or (folder.exists() and os.path.samefile(data, folder)):
        return
    for file in [*PreparedText.load(data).files, *sorted(data.glob("dict*.txt")), data / FILE]:
        copy = folder / file.name
        if not (copy.is_file() and filecmp.cmp(file, copy)):
            write_whole(copy, lambda temporary, file=file: shutil.copy2(file, temporary))
