"""The numbers of the papers' statements: fairseq_plugins/tools/papers/numbers.json from the sources in statements.json.

No table of a statement has a measured number written down. It has columns that say where their numbers are, and rows
that fill in the words in braces; the name of a row is its label, unless it gives another:

    {"columns": {
       "test bits": {"file": "char_lm.jsonl", "cell": ["{name}-seed1", "{name}-seed2"], "column": "test bpc"},
       "the paper": {"paper": "all_attention", "table": "Table 2", "row": "{paper}", "column": "test bpc"}},
     "rows": {
       "all-attention": {"paper": "small"},
       "with feed-forward layers": {"name": "feed-forward", "the paper": "not given"}}}

A row with words or a source of its own for a column has these instead. A string in place of a row is its name. These
are the sources:

    {"file": "char_lm.jsonl", "cell": "feedback-seed1", "column": "test bpc"}
    {"file": "agents/maze.jsonl", "cell": "lstm", "column": "reward", "range": "lowest to highest", "runs": "trials"}
    {"file": "toy_tasks/programs-3-lstm.json", "column": "by_position", "at": 1, "digits": 1}
    {"section": "Training", "row": "2", "column": "ratio"}
    {"paper": "feedback", "table": "Table 1", "row": "programs-3, accuracy", "column": "lstm"}

A file is one of benchmarks/; a list of cells gives their mean, the smallest, the largest and their number. A section is
one of the statement's page: its table has one row that begins with these cells, where | is between two. A paper is that
of recipes/PAPER/paper.json.
"""

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import published, results_table
from fairseq_plugins.tools.lib.statements import FOLDER

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
NUMBERS = FOLDER / "numbers.json"


def written() -> dict[str, dict]:
    """The statements with the sources of their numbers."""
    return json.loads((FOLDER / "statements.json").read_text(encoding="utf-8"))


def numbers() -> str:
    """The text of numbers.json: for each paper and statement the rows of its tables, one row a line."""
    found = {
        name: {each["item"]: shown(each) for each in paper["statements"] if "tables" in each}
        for name, paper in written().items()
    }
    return re.sub(r"\n {8,}", " ", json.dumps(found, ensure_ascii=False, indent=2)) + "\n"


def shown(statement: dict) -> list[list[dict[str, str]]]:
    """The rows of a statement's tables, each with its label in the column "" and the numbers in the others."""
    return [[_shown(row, statement["page"]) for row in sources(table)] for table in statement["tables"]]


def sources(table: dict) -> list[dict]:
    """The rows of a table, each with its label in the column "" and a source or words in the others.

    Raises:
        UserError: a row lacks a word in braces
    """
    return [{"": label} | _row(table["columns"], label, given) for label, given in table["rows"].items()]


def _row(columns: dict, label: str, given: str | dict) -> dict:
    given = {"name": label} | ({"name": given} if isinstance(given, str) else given)
    try:
        return {column: _filled(given.get(column, source), given) for column, source in columns.items()}
    except KeyError as missing:
        raise UserError(f"statements.json: the row {label} must say {missing}, for its columns.") from None


def _filled(source, names: dict):
    """A source whose words in braces are replaced by those of a row."""
    match source:
        case str():
            return source.format(**names)
        case list():
            return [_filled(each, names) for each in source]
        case dict():
            return {key: _filled(each, names) for key, each in source.items()}
    return source


def _shown(row: dict, page: str) -> dict[str, str]:
    return {column: cell if isinstance(cell, str) else number(cell, page) for column, cell in row.items()}


def number(source: dict, page: str) -> str:
    """The number that a cell names.

    Raises:
        UserError: it is not there
    """
    try:
        if "section" in source:
            return on_page(page, **source)
        if "paper" in source:
            return of_paper(**source)
        if source["file"].endswith(".jsonl"):
            return in_rows(**source)
        return in_figures(**source)
    except (KeyError, IndexError, TypeError, ValueError, OSError):
        raise UserError(f"statements.json names {source}, which is not there; correct it.") from None


def in_rows(file: str, cell: str | list[str], column: str, digits: int = 3, range: str = "", runs: str = "") -> str:
    """A number of a results.jsonl; with ``range`` and ``runs`` the columns that have its range and number of runs."""
    rows = results_table.read_rows(BENCHMARKS / file)
    values = [rows[name][column] for name in ([cell] if isinstance(cell, str) else cell)]
    mean = f"{statistics.mean(values):.{digits}f}"
    if range:
        least, most = map(float, rows[cell][range].split(" to "))
        return f"{mean} ({least:.{digits}f} to {most:.{digits}f}; n = {rows[cell][runs]:.0f})"
    if len(values) == 1:
        return mean if isinstance(cell, str) else f"{mean} (n = 1)"
    return f"{mean} ({min(values):.{digits}f} to {max(values):.{digits}f}; n = {len(values)})"


def in_figures(file: str, column: str, at: int | None = None, digits: int = 3) -> str:
    """A number of a file that one run has written; ``at`` is its place where there is a list."""
    value = json.loads((BENCHMARKS / file).read_text(encoding="utf-8"))[column]
    return f"{value if at is None else value[at]:.{digits}f}"


def of_paper(paper: str, table: str, row: str, column: str) -> str:
    text = (ROOT / "recipes" / paper / "paper.json").read_text(encoding="utf-8")
    return published.published(text)[table, row, column]


def on_page(page: str, section: str, row: str | list[str], column: str) -> str:
    """A cell of a Markdown table, without stars; of several rows their mean, the smallest, the largest and n."""
    rows = [row] if isinstance(row, str) else row
    cells = [_cell(page, section, name.split(" | "), column) for name in rows]
    if len(cells) == 1:
        return cells[0]
    values, digits = [float(cell) for cell in cells], len(cells[0].partition(".")[2])
    mean, least, most = (f"{value:.{digits}f}" for value in (statistics.mean(values), min(values), max(values)))
    return f"{mean} ({least} to {most}; n = {len(values)})"


def _cell(page: str, section: str, begin: list[str], column: str) -> str:
    for header, *rows in tables(BENCHMARKS / page, section):
        found = [row for row in rows if row[: len(begin)] == begin]
        if column in header and len(found) == 1:
            return found[0][header.index(column)]
    raise KeyError(section)


def tables(page: Path, section: str) -> Iterator[list[list[str]]]:
    """The tables below a heading that begins with these words, up to the next heading."""
    text = re.split(r"^#+ ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for part in text[1:]:
        if part.startswith(section):
            for lines in re.findall(r"(?:^\|.*\n?)+", part, re.MULTILINE):
                header, _, *rows = [
                    [cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")]
                    for line in lines.splitlines()
                ]
                yield [header, *rows]
