"""The report: every picture is in the page and described, and nothing is fetched from elsewhere."""

import json
import os
import re
from datetime import date
from html.parser import HTMLParser

import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import report

STATEMENTS = [(paper, entry) for paper in report.statements().values() for entry in paper["statements"]]
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
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "img":
            self.images.append(attributes)
        for name in ("src", "href"):
            value = attributes.get(name, "#")
            if not value.startswith(("#", "data:image/png;base64,")):
                self.elsewhere.append(value)
        if tag not in ("img", "meta", "br"):
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
    assert "url(" not in report.STYLE and "@import" not in report.STYLE
    for _, entry in STATEMENTS:
        assert entry["item"] in page.text and entry["says"] in page.text
    assert len(page.images) == sum(len(entry.get("pictures", [])) for _, entry in STATEMENTS)
    assert all(len(image["alt"]) > 20 for image in page.images)


@pytest.mark.parametrize("entry", [entry for _, entry in STATEMENTS], ids=[entry["item"] for _, entry in STATEMENTS])
def test_every_number_stands_on_the_page_that_is_named(entry):
    assert entry["verdict"] in report.VERDICTS
    assert ("rows" in entry) == ("page" in entry) == (entry["verdict"] != "not tried")
    if "page" in entry:
        page = (report.BENCHMARKS / entry["page"]).read_text()
        numbers = [
            value
            for row in entry["rows"]
            for column, value in row.items()
            if column and not column.startswith("the paper") and value
        ]
        assert entry["size"] and entry["command"] in page
        assert date.fromisoformat(entry["date"]) and entry["date"] in page
        missing = [number for number in numbers if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", page)]
        assert not missing, f"{entry['page']} does not have {missing}"


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
    os.utime(run / "results.jsonl", (1e9, 1e9))
    page = made(tmp_path / "runs")
    for words in ("weighted-seed1", "dev bpc", "1.65 (1.6 to 1.7)", "<1.5", row["command"], "2001-09-09"):
        assert words in page.text
    drawn = [image["alt"] for image in page.images[-2:]]
    assert drawn == ["loss over updates of 1 trainings", "weight of each layer in the memory over updates of weighted"]


def test_a_folder_without_results_is_said(made, tmp_path):
    with pytest.raises(UserError, match="has no results.jsonl"):
        made(tmp_path)


def test_a_damaged_table_is_said(made, tmp_path):
    (tmp_path / "results.jsonl").write_text("{")
    with pytest.raises(UserError, match="damaged in line 1"):
        made(tmp_path)
