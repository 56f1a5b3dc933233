"""The notebook keeps the text and pictures of its cells. test_python.py runs its code in the page made of it."""

import base64
import json

import notebook
import pytest
from pages import ROOT

NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))
MACHINE = ("/work", "/home", "/root", "/tmp", "/usr")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_small_and_has_its_outputs(path):
    text = path.read_text(encoding="utf-8")
    content = json.loads(text)
    printed = [output for cell in notebook.code_cells(content) for output in cell["outputs"]]
    assert len(text) < 200_000 and printed and not [place for place in MACHINE if place in text]
    for number, png in enumerate(notebook.pictures(content), 1):
        assert notebook.picture(path, number).read_bytes() == base64.b64decode(png)


def test_cells_run_in_one_namespace_and_keep_what_they_print_and_draw():
    def cell(*lines):
        return {"cell_type": "code", "source": [f"{line}\n" for line in lines], "metadata": {}}

    content = {
        "cells": [cell("a = 2"), cell("print(a)", "a + 1"), cell("from matplotlib.figure import Figure", "Figure()")]
    }
    notebook.run(content)
    nothing, printed, drawn = (cell["outputs"] for cell in content["cells"])
    assert nothing == [] and printed == [{"output_type": "stream", "name": "stdout", "text": ["2\n"]}]
    assert base64.b64decode(drawn[0]["data"]["image/png"]).startswith(b"\x89PNG")
