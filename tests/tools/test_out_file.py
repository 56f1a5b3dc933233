"""Tools write only files whose ending is that of their kind."""

from argparse import ArgumentTypeError

import pytest

from fairseq_plugins.tools.lib.out_file import PICTURE


@pytest.mark.parametrize("name", ["maps.svg", "a.b/maps.png", "MAPS.PDF"])
def test_a_picture_has_one_of_three_formats(name):
    assert str(PICTURE(name)) == name


@pytest.mark.parametrize("name", ["maps.xyz", "maps", "a.png/maps", "", ".", "/"])
def test_another_ending_is_refused(name):
    with pytest.raises(ArgumentTypeError, match="is no name of a file that ends in .png or .pdf or .svg; give one"):
        PICTURE(name)


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "maps.png").mkdir()
    with pytest.raises(ArgumentTypeError, match="is no name of a file"):
        PICTURE(str(tmp_path / "maps.png"))
