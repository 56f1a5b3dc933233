"""Links and files of the pages exist, and their lists are complete."""

import re

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY
from pages import PAGES, ROOT, name, read_tables

TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
ALL = "\n".join(TEXTS.values())

PATH = re.compile(r"\b((?:docs|recipes|benchmarks|preprocess|tests|fairseq_plugins)/[\w/]*\w\.(?:py|sh|md|json|png))\b")

pages = pytest.mark.parametrize("page", PAGES, ids=name)


def malformed(table):
    """Rows that have not as many columns as the header, and a line of dashes that is not there."""
    rows = [row for row in table if len(row) != len(table[0])]
    return rows if all(set(cell) == {"-"} for cell in table[1]) else [*rows, table[1]]


def slug(heading: str) -> str:
    """The anchor that a forge and mkdocs give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)}


@pages
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", TEXTS[page]):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(file), f"{target} has no heading #{anchor}"


@pages
def test_files_that_are_named_exist(page):
    named = {
        path for path in PATH.findall(TEXTS[page]) if not re.search(r"\b[A-Z]+\b", path)
    }  # recipes/PAPER/paper.json stands for any
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pages
def test_tables_are_whole(page):
    assert [malformed(table) for table in read_tables(TEXTS[page]) if malformed(table)] == []


def test_a_broken_table_is_found():
    broken = read_tables("| a | b |\n| --- | --- |\n| 1 | 2 | `3` |\n| 4 |\n")
    assert malformed(broken[0]) == [["1", "2", "`3`"], ["4"]]


def runnable(path):
    """A recipe, not what recipes share."""
    return path.stat().st_mode & 0o111 and path.parent.name not in ("setup", "lib")


def test_every_recipe_is_in_the_list():
    text = (ROOT / "docs/recipes.md").read_text()
    recipes = [path for path in ROOT.glob("recipes/**/*.sh") if runnable(path) and path.name != "quickstart.sh"]
    assert recipes and [path.name for path in recipes if str(path.relative_to(ROOT)) not in text] == []


def test_architectures_are_listed_and_exist():
    ours = {name for name, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("fairseq_plugins.")}
    written = re.sub(r"<!-- generated: .*?<!-- end -->", "", ALL, flags=re.DOTALL)
    named = {word for code in re.findall("`([^`\n]+)`", written) for word in code.split()}
    tables = [table for table in read_tables(written) if table[0][0] == "architecture" or "parameters" in table[0]]
    in_tables = {row[0].strip("`") for table in tables for row in table if re.fullmatch(r"`\w+`", row[0])}
    assert sorted(ours - named) == []
    assert in_tables and sorted(in_tables - ours) == []


def test_the_readme_is_one_page():
    readme = (ROOT / "README.md").read_text()
    papers = {"2002.09402", "1907.01470", "2311.08123", "1912.11959"}
    assert len(readme.splitlines()) <= 120
    assert papers <= set(re.findall(r"arxiv\.org/abs/([\d.]+)", readme))
