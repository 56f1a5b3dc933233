"""The downloader against a local server: dead mirrors, cut connections, wrong content."""

import hashlib
import importlib
import os
import re
import shutil
import socket
import struct
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from lib.download import Remote, fetch, fetch_all
from lib.steps import Steps

from fairseq_plugins.errors import UserError

CONTENT = bytes(range(256)) * 40_000
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """/good, /wrong, and /cut, which breaks off after 4,000,000 bytes, know ranges; /plain does not. /reset resets the
    first connection before the answer and the second within it."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Range")))
        if self.path == "/reset" and len(self.server.asked) == 1:
            return self.reset()
        content = CONTENT[::-1] if self.path == "/wrong" else CONTENT
        start = 0
        if (range_ := self.headers.get("Range")) and self.path != "/plain":
            start = int(re.fullmatch(r"bytes=(\d+)-", range_)[1])
        if self.path == "/missing" or start >= len(content):
            self.send_response(404 if self.path == "/missing" else 416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if self.path == "/reset" and len(self.server.asked) == 2:
            self.wfile.write(content[start : start + 4_000_000])
            return self.reset()
        self.wfile.write(content[start : start + 4_000_000] if self.path == "/cut" else content[start:])

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr("lib.download.time.sleep", lambda seconds: None)


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def dead():
    """The address of a mirror that is not there."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/good"
    return address


def partial_of(remote, folder):
    return folder / f"{remote.name}.{zlib.crc32(remote.urls[0].encode()):08x}.partial"


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_the_next_mirror_is_taken_when_the_first_is_dead_or_wrong(algorithm, server, dead, tmp_path, capsys):
    mirrors = (dead, f"{server.url}/missing", f"{server.url}/wrong", f"{server.url}/good")
    checksum = hashlib.new(algorithm, CONTENT).hexdigest()
    fetch(Remote("corpus", mirrors, checksum, algorithm), tmp_path / "corpus")
    assert (tmp_path / "corpus").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
    said = capsys.readouterr().out
    assert "/wrong: its checksum is wrong" in said and said.endswith("checksum verified\n")
    assert [path for path, _ in server.asked] == ["/missing", "/wrong", "/good"]  # a missing file is asked for once


def test_a_reset_connection_is_tried_again(server, tmp_path):
    fetch(Remote("corpus", (f"{server.url}/reset",), CHECKSUM), tmp_path / "corpus")
    assert (tmp_path / "corpus").read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == ["/reset"] * 3


def test_a_partial_file_longer_than_the_remote_one_is_fetched_anew(server, tmp_path):
    remote = Remote("corpus", (f"{server.url}/good",), CHECKSUM)
    partial_of(remote, tmp_path).write_bytes(CONTENT + b"more")
    fetch(remote, tmp_path / "corpus")
    assert (tmp_path / "corpus").read_bytes() == CONTENT
    assert server.asked == [("/good", f"bytes={len(CONTENT) + 4}-"), ("/good", None)]


def test_a_cut_download_is_resumed_behind_what_is_there(server, tmp_path):
    fetch(Remote("corpus", (f"{server.url}/cut",), CHECKSUM), tmp_path / "corpus")
    assert (tmp_path / "corpus").read_bytes() == CONTENT
    assert server.asked == [("/cut", None), ("/cut", "bytes=4000000-"), ("/cut", "bytes=8000000-")]


def test_an_interrupted_call_is_resumed_by_the_next(server, tmp_path, monkeypatch):
    remote = Remote("corpus", (f"{server.url}/cut",), CHECKSUM)
    monkeypatch.setattr("lib.download.ATTEMPTS", 1)
    with pytest.raises(UserError, match="cut off at 4000000 bytes"):
        fetch(remote, tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()
    monkeypatch.setattr("lib.download.ATTEMPTS", 3)
    fetch(remote, tmp_path / "corpus")
    assert (tmp_path / "corpus").read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [None, "bytes=4000000-", "bytes=8000000-"]


def test_a_whole_partial_file_needs_no_more_bytes(server, tmp_path):
    remote = Remote("corpus", (f"{server.url}/good",), CHECKSUM)
    fetch(remote, tmp_path / "corpus")
    (tmp_path / "corpus").rename(partial_of(remote, tmp_path))
    fetch(remote, tmp_path / "corpus")
    assert (tmp_path / "corpus").read_bytes() == CONTENT


def test_a_server_without_ranges_sends_the_whole_again(server, tmp_path, monkeypatch):
    remote = Remote("corpus", (f"{server.url}/plain",), CHECKSUM)
    partial_of(remote, tmp_path).write_bytes(CONTENT[:1000])
    fetch(remote, tmp_path / "corpus")
    assert (tmp_path / "corpus").read_bytes() == CONTENT


def test_without_any_mirror_the_message_says_what_to_put_where(server, dead, tmp_path):
    with pytest.raises(UserError) as error:
        fetch(Remote("corpus.tgz", (dead, f"{server.url}/wrong"), CHECKSUM), tmp_path / "corpus.tgz")
    message = str(error.value)
    assert dead in message and "its checksum is wrong" in message
    assert f"to {tmp_path / 'corpus.tgz'}" in message and "--raw" in message
    assert list(tmp_path.iterdir()) == []


CORPORA = ["char_ptb", "cnndm", "enwik8", "iwslt14_deen", "multi30k", "text8", "wikitext103", "wmt14_ende"]


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_mirror_is_encrypted_or_checked_by_a_checksum(corpus):
    for remote in importlib.import_module(corpus).REMOTES:
        assert remote.checksum or all(url.startswith("https://") for url in remote.urls), remote.name


def test_what_is_there_is_not_fetched_again(server, tmp_path):
    (tmp_path / "corpus").write_text("mine")
    fetch(Remote("corpus", (f"{server.url}/good",)), tmp_path / "corpus")
    assert (tmp_path / "corpus").read_text() == "mine" and server.asked == []


@pytest.mark.parametrize("name, kind", [("corpus.tgz", "gztar"), ("corpus.zip", "zip")])
def test_an_archive_is_unpacked_and_a_damaged_one_is_named(name, kind, tmp_path):
    raw, content = tmp_path / "raw", tmp_path / "content/de-en"
    raw.mkdir()
    content.mkdir(parents=True)
    (content / "train.de").write_text("ja\n")
    Path(shutil.make_archive(tmp_path / "made", kind, content.parent)).rename(raw / name)
    assert fetch_all([Remote(name, ())], Steps(tmp_path)) == raw
    assert (raw / "corpus/de-en/train.de").read_text() == "ja\n"
    (raw / name).write_bytes((raw / name).read_bytes()[:60])
    with pytest.raises(UserError, match=f"{name} cannot be unpacked"):
        fetch_all([Remote(name, ())], Steps(tmp_path))
