"""What the tests of conversion share."""

import sys

import pytest

from fairseq_plugins.tools import convert


@pytest.fixture
def converted(tmp_path, monkeypatch):
    """converted(checkpoint, "--from", ...) runs the tool; the folder that it wrote."""

    def run(checkpoint, *options):
        folder = tmp_path / "model"
        monkeypatch.setattr(sys, "argv", ["convert", *map(str, (checkpoint, "--out", folder, *options))])
        convert.main()
        return folder

    return run
