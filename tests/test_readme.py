"""What the README points at is there, and what it lists is whole."""

import re
from pathlib import Path

from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_plugins.tools.lib.register import register

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()


def read_tables(text):
    """Markdown tables as lists of rows of cells, the line of dashes included."""
    tables, before = [], ""
    for line in text.splitlines():
        if line.startswith("|"):
            if not before.startswith("|"):
                tables.append([])
            tables[-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]])
        before = line
    return tables


def malformed(table):
    """Rows that have not as many columns as the header, and a line of dashes that is not there."""
    rows = [row for row in table if len(row) != len(table[0])]
    return rows if all(set(cell) == {"-"} for cell in table[1]) else [*rows, table[1]]


def test_every_file_that_the_readme_names_exists():
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", TEXT)
    paths = re.findall(r"\b((?:recipes|benchmarks|preprocess|tests|fairseq_plugins)/[\w/]*\w\.(?:py|sh|md))\b", TEXT)
    assert links and paths
    assert [name for name in links + paths if not (ROOT / name).exists()] == []


def runnable(path):
    """A recipe, not what recipes share."""
    return path.stat().st_mode & 0o111 and path.parent.name != "setup"


def test_every_recipe_is_named():
    recipes = [path for path in ROOT.glob("recipes/**/*.sh") if runnable(path)]
    assert recipes and [path.name for path in recipes if str(path.relative_to(ROOT)) not in TEXT] == []


def test_tables_are_whole():
    tables = read_tables(TEXT)
    assert len(tables) > 5 and [malformed(table) for table in tables if malformed(table)] == []
    broken = read_tables("| a | b |\n| --- | --- |\n| 1 | 2 | `3` |\n| 4 |\n")
    assert malformed(broken[0]) == [["1", "2", "`3`"], ["4"]]


def test_architectures_are_listed_and_exist():
    register()
    ours = {name for name, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("fairseq_plugins.")}
    named = {word for code in re.findall("`([^`\n]+)`", TEXT) for word in code.split()}
    first_cells = {row[0] for table in read_tables(TEXT) for row in table}
    in_tables = {cell.strip("`") for cell in first_cells if re.fullmatch(r"`\w+`", cell)}
    assert sorted(ours - named) == [] and sorted(in_tables - ours) == []
