"""The report: every picture is in the page and described, and nothing is fetched from elsewhere."""

import argparse
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import plot, report
from fairseq_plugins.tools.lib import html_page, pictures, statements

pytest.importorskip("markdown")

STATEMENTS = statements.all_statements(statements.read_papers())
LOG = "".join(
    f"2026-11-24 10:00:00 | INFO | {kind} | {json.dumps(values)}\n"
    for update in (1, 2, 3)
    for kind, values in (
        ("train_inner", {"epoch": 1, "loss": "3", "num_updates": str(update), "memory_0": "0.5", "memory_1": "0.5"}),
        ("valid", {"epoch": 1, "valid_loss": str(4 - update), "valid_num_updates": str(update)}),
    )
)


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
def made(monkeypatch, tmp_path):
    def make(*results):
        out = tmp_path / "report.html"
        monkeypatch.setattr("sys.argv", ["report", *map(str, results), "--out", str(out)])
        report.main()
        return Page(out.read_text(encoding="utf-8"))

    return make


def test_the_page_says_of_every_statement_whether_it_holds(made):
    page = made()
    assert not page.elsewhere and not page.open
    assert "url(" not in html_page.STYLE and "@import" not in html_page.STYLE
    for entry in STATEMENTS:
        assert all(
            entry[key].replace("`", "") in page.text
            for key in ("item", "claim", "here", "size", "setting")
            if key in entry
        )
        for command in entry.get("commands", []):
            assert command["run"] in page.text and command["date"] in page.text
    assert all(rule in page.text for rule in statements.VERDICTS.values())
    assert len(page.images) == sum(len(entry.get("pictures", [])) for entry in STATEMENTS)
    assert all(len(image["alt"]) > 20 for image in page.images)
    assert page.links <= page.ids and len(page.links) > len(STATEMENTS)


def test_an_installed_report_has_the_papers(made, tmp_path):
    """The package as it is installed, with no repository around it."""
    root, site, out = Path(__file__).parents[2], tmp_path / "site", tmp_path / "installed.html"
    build = ["setup.py", "-q", "egg_info", "--egg-base", tmp_path, "build_py", "--build-lib", site]
    subprocess.run([sys.executable, *build], cwd=root, check=True, capture_output=True)
    assert not any(path.is_symlink() for path in site.rglob("papers/*"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "fairseq_plugins.tools.report", "--out", out]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    made()
    assert out.read_text(encoding="utf-8") == (tmp_path / "report.html").read_text(encoding="utf-8")


def test_results_of_ones_own_have_a_table_the_command_and_curves(made, tmp_path):
    run = tmp_path / "runs/fig5"
    (run / "weighted").mkdir(parents=True)
    (run / "weighted/train.log").write_text(LOG)
    (run / "just-begun").mkdir()
    (run / "just-begun/train.log").write_text("nothing yet\n")
    row = {
        "cell": "weighted-seed1",
        "dev bpc": 1.60000001,
        "paper": "<1.5",
        "command": "recipes/feedback/fig5_memory_composition.sh",
    }
    other = row | {"cell": "weighted-seed2", "dev bpc": 1.7}
    (run / "results.jsonl").write_text(json.dumps(row) + "\n" + json.dumps(other) + "\n")
    os.utime(run / "results.jsonl", (1e9 + 43200,) * 2)  # on 2001-09-09 in every time zone
    page = made(tmp_path / "runs")
    assert page.links <= page.ids and "own-1" in page.links
    assert "runs/fig5" in page.text and str(tmp_path) not in page.text
    for words in ("weighted-seed1", "dev bpc", "1.65 (1.6 to 1.7)", "<1.5", row["command"], "2001-09-09"):
        assert words in page.text
    drawn = [image["alt"] for image in page.images[-2:]]
    assert drawn == [
        "Validation loss over updates, of 1 training; lower is better. loss, validation (thin: training) over updates. "
        "weighted from 3 to 1.",
        "Weight of each layer in the feedback memory over updates, of weighted. weight in the memory, softmax(w) over "
        "updates. embedding from 0.5 to 0.5; layer 1 from 0.5 to 0.5.",
    ]


@pytest.mark.parametrize("name", ["", "train.log"])
def test_a_training_without_a_recipe_has_curves(made, tmp_path, name):
    run = tmp_path / "mine"
    run.mkdir()
    (run / "train.log").write_text(LOG)
    page = made(run / name)
    assert len(page.images) == len(made().images) + 2
    assert page.images[-2]["alt"].endswith(f"{name or 'mine'} from 3 to 1.")


def test_many_trainings_have_pictures_of_ten(made, tmp_path):
    for number in range(12):
        (tmp_path / f"run{number:02}").mkdir()
        (tmp_path / f"run{number:02}/train.log").write_text(LOG)
    curves = [image["alt"] for image in made(tmp_path).images if image["alt"].startswith("Validation loss")]
    assert [alt.partition(";")[0] for alt in curves] == [
        f"Validation loss over updates, of {which} of 12 trainings" for which in ("1 to 10", "11 to 12")
    ]


def test_a_picture_that_cannot_be_drawn_is_said(made, tmp_path):
    (tmp_path / "train.log").write_text(LOG.replace('"memory_1": "0.5"', '"memory_1": "nan"'))
    page = made(tmp_path)
    assert len(page.images) == len(made().images) + 1
    assert "holds no checkpoints" in page.text


@pytest.mark.parametrize("name", [r"$\frac$", "_first", os.fsdecode(b"caf\xe9")])
def test_names_of_any_kind_are_shown(made, tmp_path, name):
    run = tmp_path / "runs" / name
    run.mkdir(parents=True)
    (run / "train.log").write_text(LOG)
    (tmp_path / "runs/results.jsonl").write_text(json.dumps({"cell": name, "bpc": 1}) + "\n")
    page = made(tmp_path / "runs")
    assert len(page.images) == len(made().images) + 2
    assert page.text.count(name.encode(errors="replace").decode()) >= 2


def test_places_of_one_name_are_told_apart(made, tmp_path):
    for run in ("a/model", "b/model"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "train.log").write_text(LOG)
    page = made(tmp_path / "a/model", tmp_path / "b/model", tmp_path / "a/model")
    assert "a/model" in page.text and "b/model" in page.text
    assert "own-2" in page.ids and "own-3" not in page.ids


def test_a_training_is_shown_once(made, tmp_path):
    for run in ("a", "b"):
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / "train.log").write_text(LOG)
    page = made(tmp_path / "runs/a/train.log", tmp_path / "runs/a", tmp_path / "runs", tmp_path / "runs/b")
    assert "own-2" in page.ids and "own-3" not in page.ids
    assert page.text.count("of 1 training;") == 2


def test_a_table_of_another_name_has_no_trainings_beside_it(made, tmp_path):
    (tmp_path / "runs/other").mkdir(parents=True)
    (tmp_path / "runs/other/train.log").write_text(LOG)
    (tmp_path / "mine.jsonl").write_text('{"cell": "a", "bpc": 1}\n')
    page = made(tmp_path / "mine.jsonl")
    assert "mine.jsonl" in page.text and len(page.images) == len(made().images)


def test_seeds_that_were_not_run_alike_are_said(made, tmp_path):
    rows = ({"cell": f"a-seed{seed}", "bpc": seed, "command": f"PASS={seed}0 SEEDS={seed} x.sh"} for seed in (1, 2))
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "The seeds of a have different commands" in made(tmp_path).text


def test_trainings_beside_a_recipe_are_shown_too(made, tmp_path):
    for folder in ("recipe", "alone"):
        (tmp_path / "runs" / folder).mkdir(parents=True)
        (tmp_path / "runs" / folder / "train.log").write_text(LOG)
    (tmp_path / "runs/recipe/results.jsonl").write_text('{"cell": "a", "bpc": 1}\n')
    page = made(tmp_path / "runs")
    assert {"own-1", "own-2"} <= page.ids and len(page.images) == len(made().images) + 4


def test_whole_numbers_have_a_mean_and_what_diverged_is_said(made, tmp_path):
    rows = ({"cell": f"a-seed{seed}", "right": right, "loss": float("nan")} for seed, right in ((1, 2), (2, 5)))
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = made(tmp_path)
    assert "3.5 (2 to 5)" in page.text and "not a number" in page.text and "nan" not in page.text


def test_a_picture_of_a_recipe_says_what_it_shows(made, tmp_path):
    (tmp_path / "runs/a").mkdir(parents=True)
    (tmp_path / "runs/a/train.log").write_text(LOG)
    (tmp_path / "runs/results.jsonl").write_text('{"cell": "a", "bpc": 1}\n')
    for name, draw in (("losses", plot.draw_curves), ("memory", plot.draw_memory)):
        arguments = {"runs": [f"a={tmp_path}/runs/a"], "run": tmp_path / "runs/a", "metric": "loss"}
        pictures.save(draw(argparse.Namespace(**arguments)), tmp_path / f"runs/{name}.png")
    losses, memory, *_ = [image["alt"] for image in made(tmp_path / "runs").images[-4:]]
    assert losses == "losses, of runs. loss, validation (thin: training) over updates. a from 3 to 1."
    weights = "embedding from 0.5 to 0.5; layer 1 from 0.5 to 0.5"
    assert memory == f"memory, of runs. weight in the memory, softmax(w) over updates. {weights}."


def test_rows_with_the_same_columns_are_one_table_and_many_commands_are_folded(made, tmp_path):
    rows = [{"cell": f"lm{n}", "bpc": n, "command": f"lm.sh {n}"} for n in range(4)]
    rows += [{"cell": f"mt{n}", "BLEU": n, "command": f"mt.sh {n}"} for n in range(4)]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = made(tmp_path).text.rpartition("Your own results")[2]
    words = " ".join(own.split())
    assert "bpc lm0 0" in words and "BLEU mt0 0" in words and "8 commands lm.sh 0" in words


def test_a_log_has_a_date(made, tmp_path):
    (tmp_path / "train.log").write_text(LOG)
    os.utime(tmp_path / "train.log", (1e9 + 43200,) * 2)  # on that day in every time zone
    assert "Last entry: 2001-09-09" in made(tmp_path).text


def test_a_damaged_picture_is_left_out_and_said(made, tmp_path):
    (tmp_path / "results.jsonl").write_text('{"cell": "a", "bpc": 1}\n')
    (tmp_path / "curve.png").write_bytes(b"")
    (tmp_path / "folder.png").mkdir()
    page = made(tmp_path)
    assert "curve.png is damaged and left out" in page.text and len(page.images) == len(made().images)


DAMAGED = {
    b"{": "no whole row in line 1",
    b"": "has no rows yet",
    b"\xff\xfe": "no text in UTF-8",
    b'{"cell": "a", "bpc": [1]}': "neither a text nor a number",
    b'{"cell": "a", "bpc": 1%s}' % (b"0" * 400): "neither a text nor a number",
    b'{"cell": 3, "bpc": 1}': "neither a text nor a number",
    b'{"cell": [3], "bpc": 1}': "neither a text nor a number",
    b'{"cell": "a", "bpc": 1}\n' * 2: "has the row a in line 1 and in line 2; delete one",
}


@pytest.mark.parametrize("content", DAMAGED, ids=DAMAGED.values())
def test_a_damaged_table_is_said_and_an_earlier_page_stays(made, tmp_path, content):
    (tmp_path / "report.html").write_text("earlier")
    (tmp_path / "results.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=DAMAGED[content]) as error:
        made(tmp_path)
    assert "results.jsonl" in str(error.value)
    assert (tmp_path / "report.html").read_text() == "earlier"


def test_a_folder_without_results_is_said(made, tmp_path):
    with pytest.raises(UserError, match="neither a results.jsonl nor a train.log"):
        made(tmp_path)
    with pytest.raises(UserError, match="does not exist; name"):
        made(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(UserError, match="neither a results.jsonl nor a log"):
        made(tmp_path / "notes.txt")


def test_a_table_that_is_named_as_the_page_stays(monkeypatch, capsys, tmp_path):
    table = tmp_path / "results.jsonl"
    table.write_text('{"cell": "a", "bpc": 1}\n')
    monkeypatch.setattr("sys.argv", ["report", str(table), "--out", str(table)])
    with pytest.raises(SystemExit):
        report.main()
    assert "is no name of a file that ends in .html; give one" in capsys.readouterr().err
    assert table.read_text() == '{"cell": "a", "bpc": 1}\n'


def test_a_place_that_takes_no_file_is_said(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("sys.argv", ["report", "--out", str(tmp_path / "file/report.html")])
    with pytest.raises(UserError, match="--out: .*; name a file in a folder where you may write"):
        report.main()
