"""What the papers say and what came of it here: benchmarks/statements.json, with every number that it names.

A statement has what came out in one sentence (``here``) and the reasons for its verdict (``why``, an empty line between
paragraphs). The numbers in these must stand on its page or in its tables, and no table has a measured number written
down. It has columns that say where their numbers stand, and rows that fill in what is in braces; a row's name is its
label, where it gives no other:

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
one of the statement's page: its table has one row that begins with these cells, where | stands between two. A paper is
that of recipes/PAPER/paper.json.
"""

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import published, results_table

ROOT = Path(__file__).resolve().parents[3]
BENCHMARKS = ROOT / "benchmarks"

VERDICTS = {
    "holds": "What the paper says, the order or the direction, came out in every run that we tried. There were two "
    "or more runs of each side, on active memory's Table 4 three. All models had the same budget of training, and the "
    "ranges of their runs do not overlap. It holds at the size that is named, and the difference may be smaller or "
    "larger than the paper's.",
    "does not hold": "The opposite of what the paper says came out in every run, under the same conditions as for "
    "holds. A check, which is named, excludes a fault of ours. It does not hold at the size that is named.",
    "not decided": "We tried it, and it is neither of the two: too few runs, ranges that overlap, budgets that "
    "differ, a comparison that is not the paper's, or models that had not yet learned the task. This rule cannot show "
    "that two are equal.",
    "not tried": "There are no runs that could decide it.",
}
NOTES = {"tried": "What was tried", "checks": "What excludes a fault of ours"}  # what a statement may say besides


def statements() -> dict[str, dict]:
    """Each paper's title and statements, with their numbers; none where the suite is installed without benchmarks/."""
    file = BENCHMARKS / "statements.json"
    papers = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: paper | {"statements": [*map(with_numbers, paper["statements"])]} for name, paper in papers.items()}


def all_statements() -> list[dict]:
    """The statements of all papers, one after the other."""
    return [statement for paper in statements().values() for statement in paper["statements"]]


def count_verdicts(papers: dict[str, dict]) -> Counter[str]:
    """How many statements have which verdict."""
    return Counter(each["verdict"] for paper in papers.values() for each in paper["statements"])


def dates(statement: dict) -> str:
    """The days of a statement's commands, the earliest first."""
    return ", ".join(sorted({command["date"] for command in statement["commands"]}))


def with_numbers(statement: dict) -> dict:
    if "tables" not in statement:
        return statement
    tables = [[_shown(row, statement["page"]) for row in sources(table)] for table in statement["tables"]]
    return statement | {"tables": tables}


def sources(table: dict) -> list[dict]:
    """The rows of a table, each with its label in the column "" and a source or words in the others.

    Raises:
        UserError: a row lacks a word that stands in braces
    """
    return [{"": label} | _row(table["columns"], label, given) for label, given in table["rows"].items()]


# how the columns begin that may say the same in every row
SHARED = ("the paper", "at random", "best possible")
NO_NUMBERS = {
    "figure only": "The paper's numbers stand in a figure, which the text that we have does not show.",
    "not given": "The paper gives no number.",
}


def without_shared(tables: list[list[dict[str, str]]]) -> tuple[list[list[dict[str, str]]], str]:
    """The tables of a statement, and in words what all rows of one say alike of the paper or of a task's bounds."""
    narrow, sentences = [], []
    for rows in tables:
        same = _shared(rows)
        words = ", ".join(f"{name}: {value}" for name, value in same.items() if value not in NO_NUMBERS)
        sentences += [f"In all rows: {words}."] if words else []
        sentences += [NO_NUMBERS[value] for value in same.values() if value in NO_NUMBERS]
        narrow.append([{name: cell for name, cell in row.items() if name not in same} for row in rows])
    return narrow, " ".join(dict.fromkeys(sentences))


def _shared(rows: list[dict[str, str]]) -> dict[str, str]:
    """The columns that say the same in every row; of a single row only those that have no number."""
    columns = {name: {row.get(name, "") for row in rows} for name in rows[0] if name.startswith(SHARED)}
    same = {name: cells.pop() for name, cells in columns.items() if len(cells) == 1}
    return {name: cell for name, cell in same.items() if cell and (len(rows) > 1 or cell in NO_NUMBERS)}


def _row(columns: dict, label: str, given: str | dict) -> dict:
    given = {"name": label} | ({"name": given} if isinstance(given, str) else given)
    try:
        return {column: _filled(given.get(column, source), given) for column, source in columns.items()}
    except KeyError as missing:
        raise UserError(f"benchmarks/statements.json: the row {label} must say {missing}, for its columns.") from None


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
        raise UserError(f"benchmarks/statements.json names {source}, which is not there; correct it.") from None


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
