"""The report: every picture is in the page and described, and nothing is fetched from elsewhere."""

import argparse
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from training_logs import entry

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import plot, report
from fairseq_plugins.tools.lib import html_page, pictures, statements

pytest.importorskip("markdown")

STATEMENTS = statements.all_statements(statements.read_papers())
LOG = "".join(
    entry("train_inner", loss=3, num_updates=update, memory_0=0.5, memory_1=0.5)
    + entry("valid", loss=4 - update, num_updates=update)
    for update in (1, 2, 3)
)
CURVES = LOG.replace("memory", "other")  # nothing else to draw


class Page(HTMLParser):
    """What a browser would load, and the text."""

    def __init__(self, text):
        super().__init__()
        self.images, self.elsewhere, self.open, self.text = [], [], [], ""
        self.ids, self.links = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "img":
            self.images.append(attributes)
        self.ids.add(attributes.get("id"))
        if tag == "a":
            self.links.add(attributes["href"].removeprefix("#"))
        for name in ("src", "href"):
            value = attributes.get(name, "#")
            if not value.startswith(("#", "data:image/png;base64,")):
                self.elsewhere.append(value)
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def make(main, tmp_path):
    """make(results...): the page with the papers and these results"""

    def make(*results):
        out = tmp_path / "report.html"
        main(report, *results, "--out", out)
        return Page(out.read_text(encoding="utf-8"))

    return make


@pytest.fixture
def own(make, monkeypatch):
    """The same without the papers"""
    monkeypatch.setattr(statements, "read_papers", dict)
    return make


def training(folder, log=CURVES):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.log").write_text(log)
    return folder


def recipe(folder, *rows):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def of_2001(file):
    os.utime(file, (1e9 + 43200,) * 2)  # on 2001-09-09 in every time zone


def test_the_page_has_every_statement(make):
    page = make()
    assert not page.elsewhere and not page.open
    assert "url(" not in html_page.STYLE and "@import" not in html_page.STYLE
    for each in STATEMENTS:
        shown = [each[key].replace("`", "") for key in ("item", "claim", "here", "size", "setting") if key in each]
        shown += [words for command in each.get("commands", []) for words in (command["run"], command["date"])]
        assert all(words in page.text for words in shown)
    assert all(rule in page.text for rule in statements.VERDICTS.values())
    assert len(page.images) == sum(len(each.get("pictures", [])) for each in STATEMENTS)
    assert all(len(image["alt"]) > 20 for image in page.images)
    assert page.links <= page.ids and len(page.links) > len(STATEMENTS)


def test_an_installed_report_has_the_papers(make, tmp_path):
    """The package as it is installed, with no repository around it."""
    root, site, out = Path(__file__).parents[2], tmp_path / "site", tmp_path / "installed.html"
    build = ["setup.py", "-q", "egg_info", "--egg-base", tmp_path, "build_py", "--build-lib", site]
    subprocess.run([sys.executable, *build], cwd=root, check=True, capture_output=True)
    assert not any(path.is_symlink() for path in site.rglob("papers/*"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "fairseq_plugins.tools.report", "--out", out]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    make()
    assert out.read_text(encoding="utf-8") == (tmp_path / "report.html").read_text(encoding="utf-8")


def test_results_of_ones_own_have_a_table_the_command_and_curves(own, tmp_path):
    training(tmp_path / "runs/fig5/weighted", LOG)
    training(tmp_path / "runs/fig5/just-begun", "nothing yet\n")
    row = {"cell": "weighted-seed1", "dev bpc": 1.60000001, "paper": "<1.5", "command": "recipes/feedback/fig5.sh"}
    of_2001(recipe(tmp_path / "runs/fig5", row, row | {"cell": "weighted-seed2", "dev bpc": 1.7}) / "results.jsonl")
    page = own(tmp_path / "runs")
    assert page.links <= page.ids and "own-1" in page.links and "own-2" not in page.ids
    assert "fig5" in page.text and str(tmp_path) not in page.text
    for words in ("weighted-seed1", "dev bpc", "1.65 (1.6 to 1.7)", "<1.5", row["command"], "Last entry: 2001-09-09"):
        assert words in page.text
    assert [image["alt"] for image in page.images] == [
        "Loss over updates; lower is better. loss, validation (thin: training) over updates. weighted from 3 to 1.",
        "Weight of each layer in the feedback memory over updates, of weighted. weight in the memory, softmax(w) over "
        "updates. embedding from 0.5 to 0.5; layer 1 from 0.5 to 0.5.",
    ]


@pytest.mark.parametrize("name", ["", "train.log"])
def test_a_training_without_a_recipe_has_curves_and_a_date(own, tmp_path, name):
    of_2001(training(tmp_path / "mine") / "train.log")
    page = own(tmp_path / "mine" / name)
    (image,) = page.images
    assert image["alt"].endswith(f"{name or 'mine'} from 3 to 1.") and "Last entry: 2001-09-09" in page.text


def test_a_picture_that_cannot_be_drawn_is_said(own, tmp_path):
    training(tmp_path, LOG.replace('"memory_1": "0.5"', '"memory_1": "nan"'))
    page = own(tmp_path)
    assert len(page.images) == 1 and "holds no checkpoints" in page.text


def test_names_of_any_kind_are_shown(own, tmp_path):
    names = [r"$\frac$", "_first", "a=b", os.fsdecode(b"caf\xe9")]
    for name in names:
        training(tmp_path / "runs" / name)
    recipe(tmp_path / "runs", *({"cell": name, "bpc": 1} for name in names))
    page = own(tmp_path / "runs")
    (image,) = page.images
    for name in names:
        readable = name.encode(errors="replace").decode()
        assert readable in page.text and readable.replace("=", " ") in image["alt"]


def test_places_of_one_name_are_told_apart_and_shown_once(own, tmp_path):
    runs = [training(tmp_path / run) for run in ("a/model", "b/model", "c")]
    page = own(runs[0] / "train.log", *runs, tmp_path / "a")
    assert all(name in page.text for name in ("a/model/train.log", "b/model", "c")) and str(tmp_path) not in page.text
    assert "own-3" in page.ids and "own-4" not in page.ids


def test_trainings_beside_a_recipe_are_shown_with_it(own, tmp_path):
    for folder in ("recipe", "alone", "other"):
        training(tmp_path / "runs" / folder)
    recipe(tmp_path / "runs/recipe", {"cell": "a", "bpc": 1})
    page = own(tmp_path / "runs")
    assert {"own-1", "own-2"} <= page.ids and len(page.images) == 2
    other = (tmp_path / "runs/recipe/results.jsonl").rename(tmp_path / "runs/other/mine.jsonl")
    page = own(other)  # of another name: nothing beside it belongs to it
    assert "mine.jsonl" in page.text and not page.images


def test_the_tables_of_a_recipe(own, tmp_path):
    rows = [{"cell": f"lm-seed{n}", "bpc": n, "command": f"PASS={n} lm.sh"} for n in (2, 5)]
    rows += [{"cell": f"mt{n}", "BLEU": n, "loss": float("nan"), "command": f"mt.sh {n}"} for n in range(4)]
    text = own(recipe(tmp_path, *rows)).text
    words = " ".join(text.split())
    assert "3.5 (2 to 5)" in text and "The seeds of lm have different commands" in text
    assert "bpc BLEU loss lm-seed2 2" in words and "mt0 0 not a number" in words and "nan" not in text
    assert "Commands PASS=2 lm.sh" in words


def test_pictures_of_a_recipe_say_what_they_show(own, tmp_path):
    training(tmp_path / "runs/a", LOG)
    recipe(tmp_path / "runs", {"cell": "a", "bpc": 1})
    arguments = {"runs": [f"a={tmp_path}/runs/a"], "metric": "loss"}
    pictures.save(plot.draw_curves(argparse.Namespace(**arguments)), tmp_path / "runs/losses.png")
    (tmp_path / "runs/curve.png").write_bytes(b"")
    (tmp_path / "runs/folder.png").mkdir()
    page = own(tmp_path / "runs")
    assert "curve.png is damaged and left out" in page.text and len(page.images) == 3
    assert page.images[0]["alt"] == "losses, of runs. loss, validation (thin: training) over updates. a from 3 to 1."


@pytest.mark.parametrize("content, words", [("{", "no whole row in line 1"), ("", "has no rows yet")])
def test_a_damaged_table_is_said_and_an_earlier_page_stays(own, tmp_path, content, words):
    (tmp_path / "report.html").write_text("earlier")
    (tmp_path / "results.jsonl").write_text(content)
    with pytest.raises(UserError, match=f"results.jsonl .*{words}"):
        own(tmp_path)
    assert (tmp_path / "report.html").read_text() == "earlier"


def test_places_without_results_or_room_are_said(own, main, tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    for path, words in {
        tmp_path: "neither a results.jsonl nor a train.log",
        tmp_path / "nowhere": "does not exist; name",
        tmp_path / "notes.txt": "neither a results.jsonl nor a log",
    }.items():
        with pytest.raises(UserError, match=words):
            own(path)
    with pytest.raises(UserError, match="--out: .*; name a file in a folder where you may write"):
        main(report, "--out", tmp_path / "notes.txt/report.html")
