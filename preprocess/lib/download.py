"""Download a corpus from one of several mirrors. Downloads are resumed and verified, and renamed when they are
complete."""

import hashlib
import os
import shutil
import tarfile
import time
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm import tqdm

from lib.steps import UNWRITABLE, Steps, UserError

CHUNK = 1 << 20
ATTEMPTS = 3  # per mirror; each attempt resumes the one before


@dataclass(frozen=True)
class Remote:
    """A file to download. A .tgz or .zip is unpacked into a folder of its own.

    If ``checksum`` is given, by ``algorithm`` of hashlib, it is verified. Else only https protects the file.
    """

    name: str
    urls: tuple[str, ...]
    checksum: str | None = None
    algorithm: str = "sha256"


def fetch_all(remotes: list[Remote], steps: Steps) -> Path:
    """Download and unpack into ``OUT/raw``. Returns this folder, which is read like a folder given as --raw."""
    raw = steps.out / "raw"
    raw.mkdir(exist_ok=True)
    for remote in remotes:
        file = raw / remote.name
        unpacked = file.with_suffix("")
        fetch(remote, file)
        if file.suffix in ARCHIVES:
            steps.run(f"unpack-{unpacked.name}", [file], [unpacked], {}, partial(_unpack, file))
    return raw


def fetch(remote: Remote, file: Path) -> None:
    """Download ``remote`` to ``file``. A UserError tells the answer of every mirror, and where to put the file by
    hand."""
    if file.exists():
        return
    answers = []
    for url in remote.urls:
        # one partial file per mirror, since parts from two mirrors may not belong together
        partial = file.with_name(f"{file.name}.{zlib.crc32(url.encode()):08x}.partial")
        try:
            _fetch_whole(url, partial)
            if remote.checksum and _checksum(partial, remote.algorithm) != remote.checksum:
                partial.unlink()
                raise OSError("its checksum is wrong")
        except (OSError, HTTPException) as error:
            if getattr(error, "errno", None) in UNWRITABLE:
                raise UserError(
                    f"{partial} could not be written ({error.strerror}): make room, and give the same command"
                    " again to resume."
                ) from error
            answers.append(f"{url}: {error}")
            print(f"download: {url}: {error}", flush=True)
            continue
        os.replace(partial, file)
        print(
            f"download: {file.name}: {file.stat().st_size} bytes from {url}"
            + (", checksum verified" if remote.checksum else ", no known checksum"),
            flush=True,
        )
        return
    raise UserError(
        f"no mirror has {file.name} ({'; '.join(answers)}): download it by other means to {file} and give "
        "this command again, or give a folder that holds the corpus with --raw."
    )


def _fetch_whole(url: str, partial: Path) -> None:
    """Raises the error of the last attempt. A client error (HTTP 4xx) ends the attempts, since it would occur again."""
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
    """Append the missing part. Returns whether the file has the length that the server gives."""
    have = partial.stat().st_size if partial.exists() else 0
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urlopen(request, timeout=60)
    except HTTPError as error:
        if error.code != 416 or not have:
            raise
        if error.headers.get("Content-Range") == f"bytes */{have}":
            return True
        partial.unlink()  # longer than the file, so it holds something else
        return _fetch_on(url, partial)
    with answer, open(partial, "ab" if answer.status == 206 else "wb") as file:
        left = answer.headers.get("Content-Length")
        have = file.tell()
        total = have + int(left) if left else None
        with tqdm(desc=partial.name, initial=have, total=total, unit="B", unit_scale=True, disable=None) as bar:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
    return total is None or partial.stat().st_size == total


def _checksum(path: Path, algorithm: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _unpack(archive: Path, folder: Path) -> str:
    try:
        ARCHIVES[archive.suffix](archive, folder)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise UserError(f"{archive} cannot be unpacked ({error}): remove it and give this command again.") from None
    return f"{sum(path.is_file() for path in folder.rglob('*'))} files"


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)


ARCHIVES = {".tgz": _untar, ".zip": _unzip}
