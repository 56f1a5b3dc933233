"""Files that are written completely or not at all."""

import os

import pytest

from fairseq_plugins.files.whole import NotWritten, write_json, write_whole


def test_what_fails_leaves_the_earlier_file(tmp_path):
    file = tmp_path / "a.json"
    write_json(file, 1)

    def half(path):
        path.write_text("2")
        raise OSError("no space")

    with pytest.raises(NotWritten, match="a.json could not be written"):
        write_whole(file, half)
    assert file.read_text() == "1\n" and [*tmp_path.iterdir()] == [file]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_no_folder_and_no_device_is_replaced(tmp_path, make):
    make(tmp_path / "there")
    with pytest.raises(NotWritten, match="there is a folder or a device"):
        write_json(tmp_path / "there", 1)
    assert not (tmp_path / "there").is_file()


def test_a_name_that_the_system_refuses_is_said(tmp_path):
    with pytest.raises(NotWritten, match="could not be written .File name too long"):
        write_json(tmp_path / ("a" * 300), 1)
