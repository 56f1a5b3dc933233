"""Tools write only files whose ending is that of their kind."""

import importlib
from argparse import ArgumentTypeError

import pytest

from fairseq_plugins.tools.lib.out_file import PICTURE


@pytest.mark.parametrize("name", ["maps.svg", "a.b/maps.png", "MAPS.PDF"])
def test_a_picture_has_one_of_three_formats(name):
    assert str(PICTURE(name)) == name


@pytest.mark.parametrize("name", ["maps.xyz", "maps", "a.png/maps"])
def test_another_ending_is_refused(name):
    with pytest.raises(ArgumentTypeError, match="is no name of a file that ends in .png or .pdf or .svg; give one"):
        PICTURE(name)


@pytest.mark.parametrize("name", ["", ".", "/", "maps.png"])
def test_a_folder_is_no_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "maps.png").mkdir()
    with pytest.raises(ArgumentTypeError, match="is a folder; give the name of a file"):
        PICTURE(name)


@pytest.mark.parametrize(
    "tool", ["label_accuracy", "rouge", "score_lines", "score_sentences", "score_translations", "watch"]
)
def test_figures_take_the_place_of_no_checkpoint(tool, tmp_path, monkeypatch, capsys):
    checkpoint = tmp_path / "checkpoint.pt"
    checkpoint.write_bytes(b"weights")
    monkeypatch.setattr("sys.argv", [tool, "--json", str(checkpoint)])
    with pytest.raises(SystemExit):
        importlib.import_module(f"fairseq_plugins.tools.{tool}").main()
    assert "is no name of a file that ends in .json; give one" in capsys.readouterr().err
    assert checkpoint.read_bytes() == b"weights"
