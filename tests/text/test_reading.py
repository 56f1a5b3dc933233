import gzip

import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.text import reading
from fairseq_plugins.text.reading import read_text

TEXT = "Ёлка стоит.\r\n\n\t雨が  降る <unk>\u2028 and on\nno newline at the end"


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_lines_end_at_newlines_only(name, tmp_path):
    (tmp_path / name).write_bytes(gzip.compress(TEXT.encode()) if name.endswith("gz") else TEXT.encode())
    assert list(read_text(tmp_path / name)) == TEXT.splitlines(keepends=True)[:2] + [
        "\t雨が  降る <unk>\u2028 and on\n",
        "no newline at the end",
    ]


@pytest.mark.parametrize("longest", range(1, 12))
def test_a_long_line_comes_in_pieces_without_a_change(longest, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST", longest)
    (tmp_path / "text").write_text(TEXT, encoding="utf-8", newline="")
    pieces = list(read_text(tmp_path / "text"))
    assert "".join(pieces) == TEXT
    assert max(map(len, pieces)) <= 2 * longest or longest < 4


def test_pieces_are_cut_before_spaces(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST", 8)
    (tmp_path / "text").write_text("one two three four\n")
    assert list(read_text(tmp_path / "text")) == ["one two", " three", " four\n"]


def test_a_byte_order_mark_is_no_text_but_it_is_bytes(tmp_path):
    (tmp_path / "text").write_bytes("\ufeffone\n\ufefftwo".encode())
    assert list(read_text(tmp_path / "text")) == ["one\n", "\ufefftwo"]
    assert list(read_text(tmp_path / "text", "surrogateescape")) == ["\ufeffone\n", "\ufefftwo"]


def test_bytes_that_are_no_text_come_through_if_asked_for(tmp_path):
    (tmp_path / "text").write_bytes(b"\xff\xfea\n\xe9")
    pieces = read_text(tmp_path / "text", "surrogateescape")
    assert "".join(pieces).encode(errors="surrogateescape") == b"\xff\xfea\n\xe9"


@pytest.mark.parametrize(
    "name, content, sentence",
    [
        ("text", b"a\n\xff\n", "text is not UTF-8 in line 2"),
        ("text", b"a\n\xe9", "text is not UTF-8 in line 2"),
        ("text.gz", gzip.compress(b"a\n" * 9, mtime=0)[:-9], "text.gz is damaged after line"),
        ("none", None, "none cannot be read"),
    ],
)
def test_what_is_wrong_is_named(name, content, sentence, tmp_path):
    if content:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        list(read_text(tmp_path / name))
