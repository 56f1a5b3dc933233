"""The papers' statements, our verdicts on them, and both as Markdown.

papers/statements.json has a statement for each table or figure, or for a part of one: the place in the paper
(``item``), the ``claim``, the ``verdict``, the outcome in one sentence (``here``), the reasons (``why``) and the size.
papers/numbers.json has the cells of its tables; docs/scripts/statement_numbers.py reads them from rows and pages.

``compare`` names the cells that a claim is judged by. A cell is the label of its row, in the column ``ours`` or
``paper``, unless another column follows after " @ ". ``as`` is one of

    difference    pairs of cells: the number of the paper's method, and the one beside it
    ratio         single cells, each a ratio of speeds or times
    number        single cells that have nothing beside them

Where the paper gives no numbers, ``claims`` says whether the first cell of a pair is "higher" or "lower". It is "level"
where the paper claims no difference; ``margin`` is then the largest difference that counts as none, of ratios their
distance from 1. ``of`` says more of our models than the names of tables and columns do.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib.markdown_text import code_block, table

FOLDER = Path(__file__).parent.parent / "papers"

VERDICTS = {
    "holds": "every run has the direction of the paper's claim. Each model has at least two runs (in active memory's "
    "Table 4 three), the ranges of the two models do not overlap, and all models had the same budget of training. If "
    "the paper claims no difference, every run lies within a margin that was set beforehand.",
    "does not hold": "every run has the opposite direction, or lies beyond the margin on one side, under the same "
    "conditions. The paper's page names a check that rules out a fault of ours.",
    "not decided": "neither of the above. The runs were too few, their ranges overlap, the budgets differ, the "
    "comparison is not the paper's, or the models had not learned the task.",
    "not tried": "we ran nothing that could decide it.",
}
EFFECT = (
    "In *A vs B*, A is the paper's method. The *effect* is A minus B; for speeds and times it is the logarithm of "
    "A / B. The *direction* is its sign. The *share* is our effect divided by the paper's. A negative share means the "
    "opposite direction. Where a row has several numbers, the lowest and the highest share stand there. There is no "
    "share where the paper gives no number, or one in another unit."
)
ROUNDING = 1e-9  # a difference of 0.03 is 0.030000000000000027 in floating point
NOTES = {"setting": "Size", "tried": "Settings tried", "checks": "Check for a fault of ours"}
Papers = dict[str, dict]


def read_papers() -> Papers:
    """Each paper's title and statements; a statement that was tried has the rows of its tables."""
    papers = json.loads((FOLDER / "statements.json").read_text(encoding="utf-8"))
    numbers = json.loads((FOLDER / "numbers.json").read_text(encoding="utf-8"))
    for name, paper in papers.items():
        for statement in paper["statements"]:
            if "tables" in statement:
                statement["tables"] = numbers[name][statement["item"]]
    return papers


def all_statements(papers: Papers) -> list[dict]:
    return [statement for paper in papers.values() for statement in paper["statements"]]


def count_verdicts(papers: Papers) -> Counter[str]:
    return Counter(statement["verdict"] for statement in all_statements(papers))


# The size of an effect


def verdict(statement: dict) -> str:
    """The verdict with its direction and its size."""
    shown = size(statement)
    return f"**{statement['verdict']}**" + (f": {shown}" if shown else "")


def size(statement: dict) -> str:
    """The direction and the share of the effect, "" where there is nothing to compare."""
    return ", ".join(filter(None, [direction(statement), share(statement)])) if "compare" in statement else ""


def direction(statement: dict) -> str:
    claimed = statement["compare"].get("claims")
    if claimed == "level":
        return distance(statement)
    ours, papers = effects(statement, "ours"), effects(statement, "paper")
    if claimed:
        papers = [{"higher": 1.0, "lower": -1.0}[claimed]] * len(ours)
    if not papers:
        return ""
    same = {our * paper > 0 for our, paper in zip(ours, papers, strict=True)}
    return "both directions" if len(same) > 1 else "same direction" if same.pop() else "opposite direction"


def distance(statement: dict) -> str:
    """Where the paper claims no difference: are ours within the margin? Of ratios the ranges count, too."""
    compare = statement["compare"]
    if "margin" not in compare:
        return "the paper claims no difference"
    ratios = compare["as"] == "ratio"
    apart = [each - 1 for each in every_ratio(statement)] if ratios else effects(statement, "ours")
    sides = {0 if abs(each) < compare["margin"] + ROUNDING else math.copysign(1, each) for each in apart}
    where = "within" if sides == {0} else "within and beyond" if 0 in sides else "beyond"
    ends = " on both sides" if {1, -1} <= sides else ""
    margin = f"{100 * compare['margin']:.0f} %" if ratios else f"{compare['margin']} {compare['unit']}"
    return f"{where} a margin of {margin}{ends}"


def every_ratio(statement: dict) -> list[float]:
    """Of cells such as "0.996 (0.964 to 1.051)" all three numbers."""
    cells = [text for pair in compared(statement, "ours", whole=True) for text in pair]
    return [float(each) for text in cells for each in re.findall(r"\d+\.\d+", text)]


def share(statement: dict) -> str:
    """Our effects in per cent of the paper's, the lowest and the highest; "" where the paper has no such number."""
    compare = statement["compare"]
    ours, papers = effects(statement, "ours"), effects(statement, "paper")
    if not papers or "claims" in compare or "the paper's unit" in compare:
        return ""
    shares = sorted(round(100 * our / paper) for our, paper in zip(ours, papers, strict=True))
    return " to ".join(dict.fromkeys(map(str, (shares[0], shares[-1])))) + " % of the effect"


def effects(statement: dict, side: str) -> list[float]:
    """The effects of "ours" or "paper", one for each pair; none where there is nothing to compare."""
    cells = [[*map(number, pair)] for pair in compared(statement, side)]
    match statement["compare"]["as"]:
        case "ratio":
            return [math.log(ratio) for (ratio,) in cells]
        case "difference":
            return [method - other for method, other in cells]
    return []


def compared(statement: dict, side: str, whole: bool = False) -> list[list[str]]:
    """The cells of "ours" or "paper", pair by pair, whole or without their brackets. Those of the paper are in one
    column, and need not be there."""
    compare = statement["compare"]
    if side not in compare:
        return []
    pairs = [[name.partition(" @ ")[::2] for name in pair] for pair in compare["pairs"]]
    columns = [[compare[side] if side == "paper" else other or compare[side] for _, other in pair] for pair in pairs]
    found = [[cell(statement, label, column) for (label, _), column in zip(*both)] for both in zip(pairs, columns)]
    return [cells if whole else [each.partition(" (")[0] for each in cells] for cells in found if all(cells)]


def cell(statement: dict, label: str, column: str) -> str:
    """A cell of one of the tables, "" where it is empty.

    Raises:
        UserError: no table has it
    """
    found = [row[column] for rows in statement["tables"] for row in rows if row[""] == label and column in row]
    if not found:
        raise UserError(f"{statement['item']}: no table has a column {column!r} in a row {label!r}; correct compare.")
    return next(filter(None, found), "")


def number(text: str) -> float:
    """The number of a cell; of "535 / 607 = 0.88" the last one."""
    return float(text.rpartition("= ")[2])


# Markdown


def overview(papers: Papers, link: Callable[[str, dict, int], str], picture: Callable[[dict], str]) -> str:
    """A table for each paper, the statements of each verdict together, a picture, and the statements not tried.

    ``link`` leads to the details, from the name of a paper, a statement and its number. ``picture`` shows a picture of
    a statement, or nothing.
    """
    parts = []
    for name, paper in papers.items():
        numbered = sorted(enumerate(paper["statements"], 1), key=lambda pair: [*VERDICTS].index(pair[1]["verdict"]))
        linked = [(f"[{each['item']}]({link(name, each, place)})", each) for place, each in numbered]
        rows = [
            [verdict(each), f"{each['claim']} {where}", papers_number(each), ours(each), each["size"]]
            for where, each in linked
            if "tables" in each
        ]
        others = [f"{where}: {each['claim']}" for where, each in linked if "tables" not in each]
        pictures = [each for statement in paper["statements"] for each in statement.get("pictures", [])]
        shown = [picture(each) for each in pictures if each["file"] == paper.get("picture")]
        parts += [f"### {paper['title']}", table(["verdict", "claim", "the paper", "ours", "size"], rows), *shown]
        parts += [f"Not tried: {' '.join(others)}"] if others else []
    return "\n\n".join(filter(None, parts))


def ours(statement: dict) -> str:
    compare = statement.get("compare")
    if not compare:
        return statement["ours"]
    return listed(compared(statement, "ours"), compare["unit"]) + (f" ({compare['of']})" if "of" in compare else "")


def papers_number(statement: dict) -> str:
    compare = statement.get("compare", {})
    shown = compared(statement, "paper") if compare else []
    return listed(shown, compare.get("the paper's unit", compare["unit"])) if shown else "no number"


def listed(pairs: list[list[str]], unit: str) -> str:
    """The pairs, with the unit after the last; one pair, where all are alike."""
    each = [" vs ".join(cell.rpartition("= ")[2] for cell in cells) for cells in pairs]
    return f"{'; '.join(each if len(set(each)) > 1 else each[:1])} {unit}"


def details(statement: dict, picture: Callable[[dict], str]) -> str:
    """The outcome, the reasons, the numbers, the pictures and the commands of a statement."""
    notes = [f"*{title}*: {statement[key]}" for key, title in NOTES.items() if key in statement]
    parts = [statement["claim"], " ".join(filter(None, [statement.get("here"), statement["why"]]))]
    parts += [table([*each[0]], [[*row.values()] for row in each]) for each in statement.get("tables", [])]
    parts += [*map(picture, statement.get("pictures", [])), *notes]
    for command in statement.get("commands", []):
        parts += [f"{command['date']}:", code_block(command["run"])]
    parts += [f"Page: `benchmarks/{statement['page']}`"] if "page" in statement else []
    return "\n\n".join(filter(None, parts))
