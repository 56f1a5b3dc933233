"""Tools write only files whose ending is that of their kind."""

import importlib
import os
import subprocess
import sys
from argparse import ArgumentTypeError, Namespace
from pathlib import Path

import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_json
from fairseq_plugins.tools import results_table, score_translations
from fairseq_plugins.tools.lib.out_file import JSON, PICTURE, refuse_inputs


@pytest.mark.parametrize("name", ["maps.svg", "a.b/maps.png", "MAPS.PDF"])
def test_a_picture_has_one_of_three_formats(name):
    assert str(PICTURE(name)) == name


NO_ENDING = "is no name of a file that ends in .png or .pdf or .svg; give one"
WRONG = {name: NO_ENDING for name in ("maps.xyz", "maps", "a.png/maps")}
WRONG |= {name: "is a folder; give the name of a file" for name in ("", ".", "/", "maps.png")}


@pytest.mark.parametrize("name", WRONG)
def test_other_names_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "maps.png").mkdir()
    with pytest.raises(ArgumentTypeError, match=WRONG[name]):
        PICTURE(name)


@pytest.mark.parametrize("tool, flag, ending", [("report", "--out", ".html"), ("rouge", "--json", ".json")])
def test_results_take_the_place_of_no_checkpoint(tool, flag, ending, main, capsys):
    with pytest.raises(SystemExit):
        main(importlib.import_module(f"fairseq_plugins.tools.{tool}"), flag, "checkpoint.pt")
    assert f"is no name of a file that ends in {ending}; give one" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given", [lambda file: file, lambda file: [file], str, lambda file: [f"a={file}"], "a=8:{}".format]
)
@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_no_tool_writes_into_a_file_that_it_reads(given, link, tmp_path):
    read, other = tmp_path / "a.json", tmp_path / "b.json"
    read.write_text("{}")
    link(read, other)
    for output in (read, other):
        with pytest.raises(UserError, match="--json .*json is read, and would be replaced; name another file"):
            refuse_inputs(Namespace(run=given(read), json=JSON(str(output)), flag=None, number=1))
    refuse_inputs(Namespace(run=given(read), json=JSON(str(tmp_path / "c.json"))))


def test_a_score_is_not_written_over_what_is_scored(tmp_path, main):
    (file := tmp_path / "x.json").write_text("H-0\t-1\ta\n")
    with pytest.raises(UserError, match="x.json is read, and would be replaced"):
        main(score_translations, file, "--json", file)
    assert file.read_text() == "H-0\t-1\ta\n"


def test_output_is_not_added_to_what_is_read(tmp_path):
    (file := tmp_path / "text").write_text("a\n")
    program = (
        "from argparse import Namespace; from fairseq_plugins.tools.lib.out_file import refuse_inputs\n"
        "import sys; refuse_inputs(Namespace(texts=sys.argv[1:]))"
    )
    for words, source in (([str(file)], "/dev/null"), ([], file)):
        with open(file, "a") as out, open(source) as stdin:
            done = subprocess.run(
                [sys.executable, "-c", program, *words], stdin=stdin, stdout=out, stderr=subprocess.PIPE, text=True
            )
        assert done.returncode == 1 and "standard output goes into" in done.stderr and "Traceback" not in done.stderr


def test_a_link_leads_to_the_file_that_is_written(tmp_path):
    there, link, loop = tmp_path / "there.json", tmp_path / "link.json", tmp_path / "loop.json"
    link.symlink_to(there)
    write_json(JSON(str(link)), 1)
    assert link.is_symlink() and there.read_text() == "1\n"
    write_json(JSON(str(link)), 2)
    assert link.is_symlink() and there.read_text() == "2\n"
    loop.symlink_to(loop)
    with pytest.raises(ArgumentTypeError, match="is a link that leads in a circle; give the name of a file"):
        JSON(str(loop))


def test_a_table_behind_a_link_stays_there(tmp_path):
    (tmp_path / "table.jsonl").symlink_to(tmp_path / "real.jsonl")
    for cell in "ab":
        results_table.add(tmp_path / "table.jsonl", cell, ["x=1"])
    assert (tmp_path / "table.jsonl").is_symlink() and len(results_table.read_rows(tmp_path / "real.jsonl")) == 2


def test_files_of_a_model_are_no_results():
    with pytest.raises(ArgumentTypeError, match="is the name of a file of a model"):
        JSON("bin/prepared_text.json")


def test_an_argument_may_be_too_long_for_the_name_of_a_file():
    """As the --prompt of tools.sample."""
    refuse_inputs(Namespace(prompt="word " * 100, out=Path("name" * 100)))
