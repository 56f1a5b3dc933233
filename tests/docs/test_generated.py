"""The generated parts of the pages are what docs/scripts/generate.py writes now."""

import argparse
import re

import code_tables
import generate
import paper_tables
import pytest
import statement_numbers
from pages import PAGES, ROOT, name

from fairseq_plugins.tools.lib import statements

MEASURED = sorted(ROOT.glob("benchmarks/*.md"))
# pages that a benchmark writes as a whole
BY_SCRIPTS = {f"{name}_speed.md" for name in ("translation", "lm", "active_memory", "skip_cross_head", "agent")}
GENERATED = [page for page in PAGES + MEASURED if "<!-- generated: " in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", GENERATED, ids=name)
def test_a_page_is_up_to_date(page):
    text = page.read_text(encoding="utf-8")
    assert generate.fresh(text) == text, "run python docs/scripts/generate.py"


def test_the_numbers_of_statements_are_up_to_date():
    assert statement_numbers.NUMBERS.read_text(encoding="utf-8") == statement_numbers.numbers(), "run generate.py"


def test_the_results_are_a_short_page():
    assert len((ROOT / "docs/results.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_a_stale_part_is_written_anew():
    begin, end = "<!-- generated: published active_memory -->\n", "<!-- end -->"
    fresh = generate.fresh(f"before\n{begin}old\n{end}\nafter\n")
    assert fresh == f"before\n{begin}{paper_tables.published('active_memory')}\n{end}\nafter\n"
    assert "<br>convolution: 1.5358<br>" in fresh


def test_a_page_of_measurements_begins_with_its_verdicts():
    for entry in statements.all_statements(statements.read_papers()):
        if "page" in entry and entry["page"] not in BY_SCRIPTS:
            text = (ROOT / "benchmarks" / entry["page"]).read_text(encoding="utf-8")
            assert f"<!-- generated: held {entry['page'].removesuffix('.md')} -->" in text.partition("\n## ")[0]


@pytest.mark.parametrize("folder", ["fairseq_plugins/tools", "preprocess"])
def test_examples_in_descriptions_keep_their_line_breaks(folder):
    """A docstring that is not raw loses a backslash at the end of a line, and two lines of a command become one."""
    descriptions = [parser.description for _, parser in code_tables.commands(folder)]
    assert descriptions and not re.findall(r"^    python .*\S {8,}--.*", "\n".join(descriptions), re.MULTILINE)


def test_the_example_of_a_command_is_one_line():
    parser = argparse.ArgumentParser(description="Say it.\n\n    python -m say a \\\n        --twice    # loudly\n")
    assert code_tables.example(parser) == "python -m say a --twice"


def test_every_paper_has_its_settings_and_numbers():
    parts = {part for page in GENERATED for part in generate.PART.findall(page.read_text(encoding="utf-8"))}
    shown = {(kind, paper) for _, kind, paper, _ in parts}
    for paper in ROOT.glob("recipes/*/paper.json"):
        assert {("settings", paper.parent.name), ("published", paper.parent.name)} <= shown
