"""Files of ``torch.save`` with a checksum. They are written completely or not at all, and verified when they are read.

Such a file is a zip archive, and a zip archive may end with a comment. Here the comment is the SHA-256 of everything
before it. So ``torch.load`` can read the file, and the file may be copied and renamed.
"""

import hashlib
import os
import re
import shutil
import time
import zipfile
from pathlib import Path
from typing import BinaryIO

import torch

from fairseq_plugins.errors import UserError, causes
from fairseq_plugins.files.whole import NotWritten, flush, write_whole

MARK = b"sha256:"
COMMENT = len(MARK) + 64  # bytes, with the hexadecimal digest
TRIES, PAUSE = 3, 2.5  # number of attempts, as in fairseq, and seconds between them


def save(state, path: Path) -> None:
    """Write a state with its checksum. The file is written completely or not at all. Raises NotWritten if the file
    could not be written."""

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            torch.save(state, file)
        flush(temporary)
        seal(temporary)

    _try(path, write)


def copy(source: Path, target: Path) -> None:
    """Copy a sealed file. Raises NotWritten if that fails, as it does for a damaged source."""

    def write(temporary: Path) -> None:
        shutil.copyfile(source, temporary)
        flush(temporary)
        check(temporary)

    _try(target, write)


def _try(path: Path, write) -> None:
    for tries_left in reversed(range(TRIES)):
        try:
            return write_whole(path, write)
        except (UserError, OSError, RuntimeError) as error:
            if not tries_left:
                raise NotWritten(f"{path} could not be written ({_reason(error)}).") from error
        time.sleep(PAUSE)


def _reason(error: BaseException) -> str:
    """The reason that the system gave; torch's writer raises another error from it."""
    said = [cause.strerror for cause in causes(error) if isinstance(cause, OSError) and cause.strerror]
    return said[0] if said else str(error).splitlines()[0]


def seal(path: Path) -> None:
    """Add the checksum to a file of ``torch.save``, after each part was checked against its CRC, which torch computes
    before it writes. Raises UserError if the file is damaged."""
    check(path)
    with open(path, "r+b") as file:
        file.seek(-2, os.SEEK_END)  # the length of the archive's comment, so far 0
        file.write(COMMENT.to_bytes(2, "little"))
        size = file.tell()
        file.write(MARK + _digest(file, size))


def check(path: Path) -> None:
    """Verify the checksum of a whole file: ours, or that of each part of a zip archive. Raises UserError if the
    checksum is wrong."""
    with open(path, "rb") as file:
        if why := damage(file):
            raise UserError(f"{path} is damaged ({why}).")


def damage(file: BinaryIO) -> str | None:
    """The fault of the checksum of an open file, or None. Files other than zip archives have no checksum. The position
    in the file does not change."""
    start = file.tell()
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - COMMENT))
        comment = file.read()
        if comment.startswith(MARK):
            return None if _digest(file, size - COMMENT) == comment[len(MARK) :] else "its checksum is wrong"
        file.seek(0)
        if file.read(2) != b"PK":
            return None
        with zipfile.ZipFile(file) as archive:
            if archive.comment:
                return "it does not end with a checksum"
            return (part := archive.testzip()) and f"the checksum of its part {part} is wrong"
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        return str(error)
    finally:
        file.seek(start)


def foreign_type(error: BaseException) -> str | None:
    """The type that torch's safe loader refused, by its error, which names it in one of two ways."""
    found = re.search(r"GLOBAL (\S+)|but got <class '(\S+)'>", str(error))
    return found and (found[1] or found[2])


def _digest(file: BinaryIO, size: int) -> bytes:
    """The SHA-256 of the first ``size`` bytes, in hexadecimal digits. Reads the file up to there."""
    file.seek(0)
    checksum = hashlib.sha256()
    while piece := file.read(min(size, 1 << 20)):
        checksum.update(piece)
        size -= len(piece)
    return checksum.hexdigest().encode()
