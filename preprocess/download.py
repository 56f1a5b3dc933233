"""Fetching a corpus: several mirrors, resumed, checked; a file has its name only when it is whole."""

import hashlib
import os
import shutil
import tarfile
import time
import zipfile
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from steps import UNWRITABLE, InputError, Steps
from tqdm import tqdm

BLOCK = 1 << 20
ATTEMPTS = 3  # a mirror, each going on where the last was cut


@dataclass(frozen=True)
class Remote:
    """A file to fetch; a .tgz or .zip gets a folder of its own.

    ``checksum``, by ``algorithm`` of hashlib, is required of the file; where none is known, https alone vouches for it.
    """

    name: str
    urls: tuple[str, ...]
    checksum: str | None = None
    algorithm: str = "sha256"


def fetch_all(remotes: list[Remote], steps: Steps) -> Path:
    """Fetch and unpack below ``OUT/raw``; returns that folder, to be read like one given as --raw."""
    raw = steps.out / "raw"
    raw.mkdir(exist_ok=True)
    for remote in remotes:
        file = raw / remote.name
        unpacked = file.with_suffix("")
        fetch(remote, file)
        if file.suffix in ARCHIVES:
            steps.run(f"unpack-{unpacked.name}", [file], [unpacked], {}, lambda folder: _unpack(file, folder))
    return raw


def fetch(remote: Remote, file: Path) -> None:
    """Put ``remote`` at ``file``; an :class:`InputError` says what every mirror answered and what to put where."""
    if file.exists():
        return
    answers = []
    for url in remote.urls:
        # one partial file a mirror: without a checksum nobody could tell that two halves belong together
        partial = file.with_name(f"{file.name}.{zlib.crc32(url.encode()):08x}.partial")
        try:
            _fetch_whole(url, partial)
            if remote.checksum and _checksum(partial, remote.algorithm) != remote.checksum:
                partial.unlink()
                raise OSError("another checksum than the known one")
        except (OSError, HTTPException) as error:
            if getattr(error, "errno", None) in UNWRITABLE:
                raise InputError(
                    f"{partial} could not be written ({error.strerror}): make room; the same command goes on there."
                ) from error
            answers.append(f"{url}: {error}")
            print(f"download: {url}: {error}", flush=True)
            continue
        os.replace(partial, file)
        print(
            f"download: {file.name}: {file.stat().st_size} bytes from {url}"
            + (", checksum right" if remote.checksum else ", no checksum known"),
            flush=True,
        )
        return
    raise InputError(
        f"no mirror has {file.name} ({'; '.join(answers)}): fetch it by other means, put it at {file} and call "
        "this command again, or give a folder that holds the corpus with --raw."
    )


def _fetch_whole(url: str, partial: Path) -> None:
    """Raises what the last attempt met; a client error (HTTP 4xx) ends the attempts, for it would be met again."""
    for attempt in range(ATTEMPTS):
        time.sleep(attempt)
        try:
            if _fetch_on(url, partial):
                return
            failure = OSError(f"cut off at {partial.stat().st_size} bytes")
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError) and error.code < 500:
                raise
            failure = error
    raise failure


def _fetch_on(url: str, partial: Path) -> bool:
    """Append what is missing; whether the file is as long as the server says it is."""
    have = partial.stat().st_size if partial.exists() else 0
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urlopen(request, timeout=60)
    except HTTPError as error:
        if error.code != 416 or not have:
            raise
        if error.headers.get("Content-Range") == f"bytes */{have}":
            return True
        partial.unlink()  # longer than the file itself, so it is no part of it
        return _fetch_on(url, partial)
    with answer, open(partial, "ab" if answer.status == 206 else "wb") as file:
        left = answer.headers.get("Content-Length")
        have = file.tell()
        total = have + int(left) if left else None
        with tqdm(desc=partial.name, initial=have, total=total, unit="B", unit_scale=True, disable=None) as bar:
            while block := answer.read(BLOCK):
                file.write(block)
                bar.update(len(block))
    return total is None or partial.stat().st_size == total


def _checksum(path: Path, algorithm: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _unpack(archive: Path, folder: Path) -> str:
    try:
        ARCHIVES[archive.suffix](archive, folder)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"{archive} cannot be unpacked ({error}): remove it and call this command again.") from None
    return f"{sum(path.is_file() for path in folder.rglob('*'))} files"


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)


ARCHIVES = {".tgz": _untar, ".zip": _unzip}
