"""The text that a model was trained on: its folder and its checkpoints know it, and refuse another text.

The folder of the checkpoints gets a copy of the dictionaries and of ``prepared_text.json``. Each checkpoint holds a
``Record``. Checkpoints of earlier versions hold none: then the dictionaries beside them count.
"""

import filecmp
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.text import dictionaries
from fairseq_plugins.text.levels import settings_of
from fairseq_plugins.text.prepared import FILE, PreparedText, check_sums, folder_of, sha256
from fairseq_plugins.text.tokenisers import Moses, Tokeniser


@dataclass(frozen=True)
class Record:
    """A checkpoint's knowledge of its text, in plain types.

    Args:
        symbols: checksums of the dictionaries (``dictionaries.checksum``), by their use: source, target, label
        languages: of a translation, source first
        prepared: the content of ``prepared_text.json`` without the sizes of the splits, and the SHA-256 of the level's
            files; None: there is no such file
    """

    symbols: dict[str, str] = field(default_factory=dict)
    languages: list[str] | None = None
    prepared: dict[str, Any] | None = None

    @classmethod
    def of_data(cls, data: Path, languages: tuple[str, str] | None) -> "Record":
        found = dictionaries.of_task(data, languages)
        prepared = None
        if (data / FILE).is_file():
            text = PreparedText.load(data)
            prepared = text.content | {"raw_bytes": {}, "files": {file.name: sha256(file) for file in text.files}}
        symbols = {side: dictionaries.checksum(data / name) for side, name in found.items()}
        return cls(symbols, list(languages) if languages else None, prepared)

    @classmethod
    def of_checkpoint(cls, path, state: Mapping[str, Any]) -> "Record | None":
        """Of a loaded checkpoint; None for one of an earlier version. Raises UserError if it holds something else in
        its place."""
        if (saved := (state.get("extra_state") or {}).get("text")) is None:
            return None
        try:
            record = cls(**saved)
            languages = record.languages or ["", ""]
            strings = [*record.symbols.keys(), *record.symbols.values(), *languages]
            if len(languages) != 2 or not all(isinstance(each, str) for each in strings):
                raise ValueError("checksums and languages are strings")
            if record.prepared is not None:
                _, files = record.text()
                check_sums(files)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise UserError(
                f"the checkpoint {path} has another text than the suite saves ({error}); take another checkpoint."
            ) from error
        return record

    def as_state(self) -> dict[str, Any]:
        return asdict(self)

    def text(self, folder: Path = Path()) -> tuple[PreparedText, dict[str, str]]:
        """How the text was prepared, with files in this folder, and the checksums of these files."""
        content = dict(self.prepared or {})
        files = dict(content.pop("files"))
        return _of_any_version(PreparedText.of(content, folder)), files


def refuse_other_shards(folders: list[Path]) -> None:
    """Raises UserError if one of the data folders of a training has other dictionaries than the first, which alone is
    read, or a text that was prepared otherwise."""
    first = folders[0]
    for folder in folders[1:]:
        if name := dictionaries.first_difference(first, folder):
            raise UserError(
                f"the data folders {first} and {folder} have different dictionaries ({name}), and only that of the"
                " first would be read: make both with one dictionary (fairseq-preprocess --srcdict and --tgtdict)."
            )
        if _prepared_otherwise(first, folder):
            raise UserError(
                f"the text of the data folders {first} and {folder} was prepared differently, as their {FILE} shows:"
                " prepare both in the same way."
            )


def refuse_other_text(data: Path, folder: Path) -> None:
    """Raises UserError if the folder holds checkpoints of a text that was prepared otherwise than that of the data
    folder, or other data."""
    ours = (folder / FILE).is_file() and not any(folder.glob("*.idx"))
    if (any(folder.glob("checkpoint*.pt")) or not ours) and holds_other_text(data, folder):
        name = dictionaries.first_difference(data, folder)
        delete = f", or delete {folder / name} if it is damaged or of no use" if name and not ours else ""
        raise UserError(f"{folder} holds a model of differently prepared text: give another --save-dir{delete}.")


def holds_other_text(data: Path, folder: Path) -> bool:
    """Does a folder hold files of a text that was prepared otherwise than that of the data folder?"""
    found = _prepared_otherwise(data, folder)
    return dictionaries.first_difference(data, folder) is not None if found is None else found


def refuse_other_symbols(data: Path, checkpoint: Path) -> None:
    """For a checkpoint of an earlier version. Raises UserError if the dictionaries beside it and in the data folder
    differ in their symbols, so the model would take one symbol for another."""
    if name := dictionaries.first_difference(data, folder_of(checkpoint)):
        raise UserError(_other_symbols(data, checkpoint, name))


def refuse_other_than(
    record: Record, checkpoint: Path, data: Path, languages: tuple[str, str] | None, labels: bool = True
) -> None:
    """For a checkpoint that knows its text.

    Args:
        languages: of the translation, where it is one
        labels: do the labels of a classification have to be the same?

    Raises:
        UserError: a dictionary of the data folder has other symbols than that of the training; or the data folder is
            that of the checkpoint, and its text was prepared otherwise, or a file is damaged
    """
    beside = os.path.realpath(data) == os.path.realpath(folder_of(checkpoint))
    if beside and (data / FILE).is_file():
        refuse_other_preparation(record, checkpoint, data)
    for side, name in dictionaries.of_task(data, languages).items():
        known = record.symbols.get(side)
        if known and (labels or side != "label") and dictionaries.checksum(data / name) != known:
            if beside:
                raise UserError(
                    f"{data / name} is damaged or of another text: it does not have the symbols of {checkpoint}; copy"
                    " it from the data folder of the training."
                )
            raise UserError(_other_symbols(data, checkpoint, name))


def refuse_other_preparation(record: Record, checkpoint: Path, folder: Path) -> None:
    """Raises UserError if the files of a folder differ from the checkpoint's knowledge of its text."""
    found = PreparedText.load(folder)
    if record.prepared is None:
        return
    known, files = record.text(folder)
    if replace(_of_any_version(found), raw_bytes={}) != known:
        raise UserError(
            f"{folder / FILE} is of a text that was prepared otherwise than that of {checkpoint}: copy it, and the"
            " files that it names, from the data folder of the training."
        )
    for name, checksum in files.items():
        if not (folder / name).is_file():
            raise UserError(
                f"{folder / name}, which {checkpoint} needs, is missing: copy it from the data folder of the"
                " training, or take another checkpoint."
            )
        if sha256(folder / name) != checksum:
            raise UserError(
                f"{folder / name} is damaged or of another text: it is not the file of {checkpoint}; copy it from the"
                " data folder of the training."
            )


def _other_symbols(data: Path, checkpoint: Path, name: str) -> str:
    return (
        f"{checkpoint} is of a text with other symbols than {data}, as their {name} shows: give the data folder of its"
        " training, or prepare the text again in the same way."
    )


def _prepared_otherwise(one: Path, other: Path) -> bool | None:
    """Were the texts of two folders prepared in different ways? None if one of them does not say."""
    if not (one / FILE).is_file() or not (other / FILE).is_file():
        return None
    return _preparation(one) != _preparation(other)


def _preparation(folder: Path) -> tuple:
    """The common properties of the text of a model and of its data: all but the sizes of the splits, and how often each
    symbol occurs."""
    text = _of_any_version(PreparedText.load(folder))
    sides = text.source, text.target, text.source_language, text.target_language
    symbols = {name: dictionaries.symbols(folder / name) for name in dictionaries.names(folder)}
    return sides, type(text.level), settings_of(text.level), [file.read_bytes() for file in text.files], symbols


def _of_any_version(text: PreparedText) -> PreparedText:
    """Earlier versions split words at combining marks. Where a text has such words, its symbols differ."""

    def whole(side: Tokeniser) -> Tokeniser:
        return replace(side, whole_words=True) if isinstance(side, Moses) else side

    return replace(text, source=whole(text.source), target=whole(text.target))


def keep_with_checkpoints(data: Path, folder: Path, languages: tuple[str, str] | None = None) -> None:
    """Copy the dictionaries from the data folder, and ``prepared_text.json`` and the files that it names if it is
    there, unless the same files are there already.

    ``prepared_text.json`` is deleted first and written last, so it always belongs to the files that it names.

    Args:
        languages: of a translation, whose dictionaries alone are copied
    """
    if not data.is_dir() or (folder.exists() and os.path.samefile(data, folder)):
        return
    prepared = PreparedText.load(data) if (data / FILE).is_file() else None
    wanted = dictionaries.of_task(data, languages).values() if languages else dictionaries.names(data)
    new = [name for name in wanted if not _same(data / name, folder / name, bool(prepared))]
    if prepared and not new and _keeps(folder, prepared):
        return
    if prepared:
        (folder / FILE).unlink(missing_ok=True)
    for name in new:
        write_whole(folder / name, partial(shutil.copy2, data / name))
    if prepared:
        prepared.save(folder)


def _keeps(folder: Path, prepared: PreparedText) -> bool:
    """Does a folder say with checksums how this text was prepared?"""
    if not (folder / FILE).is_file() or b'"sha256"' not in (folder / FILE).read_bytes():
        return False
    try:
        text = PreparedText.load(folder)
    except UserError:  # it is damaged
        return False
    return text.content == prepared.content and all(map(filecmp.cmp, prepared.files, text.files))


def _same(dictionary: Path, copy: Path, identical: bool) -> bool:
    """Is there a copy of a dictionary, in each byte or at least in its symbols?"""
    return copy.is_file() and (
        filecmp.cmp(dictionary, copy) if identical else not dictionaries.differ(dictionary, copy)
    )
