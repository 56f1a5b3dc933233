"""Checksums of files, and JSON that holds its own."""

import hashlib
import json
from pathlib import Path
from typing import Any


def sha256(file: Path) -> str:
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def sealed_json(content: dict[str, Any]) -> bytes:
    """The content as JSON, which ends with the SHA-256 of everything but these 64 digits."""
    text = json.dumps({**content, "sha256": ""}, indent=1) + "\n"
    begin, quotes, end = text.rpartition('""')
    return f'{begin}"{hashlib.sha256(text.encode()).hexdigest()}"{end}'.encode()


def opened_json(text: bytes) -> dict[str, Any]:
    """The content of ``sealed_json``; one without a list of files needs no checksum. Raises ValueError if the checksum
    is wrong, or this is no JSON."""
    content = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    if ("files" in content) != ("sha256" in content):
        raise ValueError("it has one of files and sha256 without the other")
    if "sha256" in content:
        seal = content.pop("sha256")
        begin, _, end = text.rpartition(str(seal).encode())
        if hashlib.sha256(begin + end).hexdigest() != seal:
            raise ValueError("its checksum is wrong")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("it has a name twice")
    return content
