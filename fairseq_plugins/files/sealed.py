"""Files of ``torch.save`` with a checksum of their own: written whole or not at all, verified whenever they are read.

Such a file is a zip archive, and a zip archive may end with a comment. The comment is the SHA-256 of all that stands
before it. So plain ``torch.load`` reads the file, and it may be copied and renamed.
"""

import hashlib
import os
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
TRIES, PAUSE = 3, 2.5  # as often as fairseq tries to save, and seconds between


def save(state, path: Path) -> None:
    """Write a state with its checksum; the file is whole or not there.

    Raises:
        NotWritten: with the file and why
    """

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            torch.save(state, file)
        flush(temporary)
        seal(temporary)

    _try(path, write)


def copy(source: Path, target: Path) -> None:
    """Give a sealed file's content to another name.

    Raises:
        NotWritten: with the file and why
        UserError: the source is damaged
    """

    def write(temporary: Path) -> None:
        shutil.copyfile(source, temporary)
        flush(temporary)
        check(temporary)

    _try(target, write)


def _try(path: Path, write) -> None:
    for again in reversed(range(TRIES)):
        try:
            return write_whole(path, write)
        except (UserError, OSError, RuntimeError) as error:
            if not again:
                raise NotWritten(f"{path} could not be written ({_reason(error)}).") from error
        time.sleep(PAUSE)


def _reason(error: BaseException) -> str:
    """What the system said, which torch's writer hides behind an error of its own."""
    said = [cause.strerror for cause in causes(error) if isinstance(cause, OSError) and cause.strerror]
    return said[0] if said else str(error).splitlines()[0]


def seal(path: Path) -> None:
    """Add the checksum to a file of ``torch.save``. First each part is checked against the CRC that torch computed before
    it wrote anything.

    Raises:
        UserError: it is not what was written
    """
    check(path)
    with open(path, "r+b") as file:
        file.seek(-2, os.SEEK_END)  # the length of the archive's comment, of which it has none yet
        file.write(COMMENT.to_bytes(2, "little"))
        size = file.tell()
        file.write(MARK + _digest(file, size))


def check(path: Path) -> None:
    """Read a file to its end and compare what is there with its checksum: of our own, or of each part of a zip archive.

    Raises:
        UserError: they differ
    """
    with open(path, "rb") as file:
        if why := damage(file):
            raise UserError(f"{path} is damaged ({why}).")


def damage(file: BinaryIO) -> str | None:
    """What is wrong with an open file, or None; its position stays the same. A file of neither kind has no checksum."""
    start = file.tell()
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - COMMENT))
        comment = file.read()
        if comment.startswith(MARK):
            return None if _digest(file, size - COMMENT) == comment[len(MARK) :] else "its checksum is wrong"
        file.seek(0)
        if not file.read(2) == b"PK":
            return None
        with zipfile.ZipFile(file) as archive:
            if archive.comment:
                return "its end is no checksum"
            return (part := archive.testzip()) and f"the checksum of its part {part} is wrong"
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        return str(error)
    finally:
        file.seek(start)


def _digest(file: BinaryIO, size: int) -> bytes:
    """SHA-256 of the first ``size`` bytes, in hexadecimal digits; the file ends up behind them."""
    file.seek(0)
    checksum, left = hashlib.sha256(), size
    piece = memoryview(bytearray(1 << 20))
    while left and (read := file.readinto(piece[: min(left, len(piece))])):
        checksum.update(piece[:read])
        left -= read
    return checksum.hexdigest().encode()
