"""The papers' statements: numbers come from rows and pages and are in the right row, and words agree with them.
tests/docs/test_generated.py compares what is made of them with the pages."""

import json
import re
import sys
from datetime import date
from pathlib import Path

import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import results_table
from fairseq_plugins.tools.lib import statements

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/scripts"))

import statement_numbers  # noqa: E402
from statement_numbers import BENCHMARKS  # noqa: E402

WRITTEN = statement_numbers.written()
PAPERS = statements.read_papers()


def by_name(papers, rows_of):
    """The statements by name, with the rows of all their tables as "rows"."""
    entries = {f"{name}: {entry['item']}": entry for name, paper in papers.items() for entry in paper["statements"]}
    for entry in entries.values():
        if "tables" in entry:
            entry["rows"] = [row for table in entry["tables"] for row in rows_of(table)]
    return entries


ENTRIES = by_name(WRITTEN, statement_numbers.sources)
RESOLVED = by_name(PAPERS, list)

CLAIM, SIZE = 12, 80  # words of a claim and letters of a size: a row of the overview stays short

every = pytest.mark.parametrize("name", ENTRIES)
measured = pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if "rows" in entry])


def page_of(entry):
    return (BENCHMARKS / entry["page"]).read_text(encoding="utf-8")


def cells(entry):
    """Each cell that is no label: (number of its row, its label, its column, cell)."""
    return [
        (number, row[""], column, cell)
        for number, row in enumerate(entry["rows"])
        for column, cell in row.items()
        if column
    ]


def words(text):
    return set(re.findall(r"[a-z0-9](?:[a-z0-9.,]*[a-z0-9])?", text.lower()))


def numbers(text):
    return re.findall(r"\d+(?:[.,/]\d+)*", text)


# How the tables here call a row that has another name where its number stands
CALLED = {
    "feedback / transformer": "",
    "transformer-xl": "plain",
    "skip-cross-head": "both",
    "small": "all-attention",
    "transformer-small": "with feed-forward layers",
    "attention-layers2": "attention alone, 2 layers",
    "attention-layers4": "attention alone, 4 layers",
    "fifth-feedback": "feedback, 2 layers",
    "fifth-transformer": "transformer, 2 layers",
}
OF_FILE = {"agents/corridor_longer.jsonl": "2,400 updates", "char_lm_enwik8.jsonl": "enwik8"}
LEFT_OUT = words(
    "corridor maps programs accuracy random walk fifth table4 programs-3 training inference speed-up test ppl bpc / 1."
)


def named(cell):
    """The words of the rows that a cell takes its number from."""
    if "paper" in cell:
        names = [cell["row"], cell["column"]]
    elif "section" in cell or "cell" in cell:
        names = cell.get("row") or cell["cell"]
        names = [names] if isinstance(names, str) else names
    else:
        names = [re.sub(r"^toy_tasks/(programs-3|random-walk)-|\.json$", "", cell["file"])]
    if "cell" in cell:  # fifth-feedback-top: feedback-top-seed1
        names = [re.sub(r"^(skip|lines)-|-seed\d", "", name.partition(": ")[0]) for name in names]
    names = [re.sub(r"-layers(\d)$", r" \1 layers", CALLED.get(name, name)) for name in names]
    return set().union(*map(words, [*names, OF_FILE.get(cell.get("file"), "")])) - LEFT_OUT


def misplaced(entry):
    """Cells whose number belongs to a row of another name, or is the paper's where ours should stand."""
    found = []
    for _, label, column, cell in cells(entry):
        shown = f"{label} {column}"
        if isinstance(cell, dict):
            of_paper = "paper" in cell or cell["column"] == "the paper"
            if not named(cell) <= words(shown) or of_paper != bool(re.search(r"the paper\b", shown)):
                found.append((label, column, cell))
    return found


@every
def test_a_statement_has_a_verdict_and_its_source(name):
    entry = ENTRIES[name]
    assert entry["verdict"] in statements.VERDICTS and entry["why"]
    assert 0 < len(entry["claim"].split()) <= CLAIM
    tried = entry["verdict"] != "not tried"
    assert all((key in entry) == tried for key in ("here", "rows", "page", "size", "setting", "commands"))
    assert len(entry.get("size", "")) <= SIZE
    assert ("compare" in entry) + ("ours" in entry) == tried
    assert not tried or entry["page"].endswith(("speed.md", "gpu.md")) or entry["tried"]
    for picture in entry.get("pictures", []):
        packed = statements.FOLDER / Path(picture["file"]).name
        assert picture["caption"] and packed.read_bytes() == (BENCHMARKS / picture["file"]).read_bytes()


@measured
def test_commands_and_dates_are_on_the_page(name):
    entry = ENTRIES[name]
    text = " ".join(page_of(entry).split())
    for command in entry["commands"]:
        assert date.fromisoformat(command["date"]) and command["date"] in text
        for line in command["run"].splitlines():
            assert " ".join(line.split()) in text


@measured
def test_no_number_is_typed(name):
    typed = [cell for _, _, _, cell in cells(ENTRIES[name]) if isinstance(cell, str) and re.search(r"\d", cell)]
    assert not typed, "say where the number stands, as docs/scripts/statement_numbers.py tells"


@measured
def test_numbers_are_in_the_row_of_their_name(name):
    assert not misplaced(ENTRIES[name])


def values_by_run(entry):
    """What the table takes from each run: of a row of a results.jsonl, or of the file of one run, rounded as shown."""
    found = {}
    for _, _, _, cell in cells(entry):
        if isinstance(cell, dict) and "file" in cell and cell["column"] not in ("random", "best", "sequence_accuracy"):
            names = cell.get("cell", "")
            for name in [names] if isinstance(names, str) else names:
                one = cell | {"cell": name} if name else cell
                numbers = re.findall(r"\d+\.\d+", statement_numbers.number(one, entry["page"]))
                found.setdefault((cell["file"], name), set()).update(numbers)
    return found


def on_one_line(text, numbers):
    return any(numbers <= set(re.findall(r"\d+\.\d+", line)) for line in text.splitlines())


@measured
def test_rows_and_the_page_agree(name):
    """All numbers of a run are on one line of the page."""
    text = page_of(ENTRIES[name])
    for run, numbers in values_by_run(ENTRIES[name]).items():
        if run[0] == "skip_cross_head_small.jsonl":  # of dev the page has the mean alone
            rows = results_table.read_rows(BENCHMARKS / run[0])
            numbers = {f"{rows[run[1]]['test bpc']:.3f}"}
        assert on_one_line(text, numbers), run


def ratios_of_the_gpu():
    """(cell and key of its row, "ratio (smallest to largest)")"""
    ends = ", smallest and largest"
    for line in (BENCHMARKS / "gpu_h200.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for key in row:
            if key.endswith(ends):
                ratio = key.removesuffix(ends)
                yield f"{row['cell']} {ratio}", f"{row[ratio]:.3f} ({row[key]})"


@pytest.mark.parametrize("section", ["Training", "Decoding"])
def test_ratios_on_the_page_of_the_gpu_are_those_of_its_rows(section):
    """Of the engine of their column, the batch or the layers of their row, and the model that is compared."""
    header, *rows = next(statement_numbers.tables(BENCHMARKS / "gpu.md", section))
    measured = list(ratios_of_the_gpu())
    shown = [
        (re.findall(r"batch \d+|\d\+\d|hidden states|keys and values", label), f" {engine} / ", ratio)
        for label, *cells in rows
        for engine, ratio in zip(header[1:], cells, strict=True)
        if "(" in ratio
    ]
    assert len(shown) >= 8
    for words_of_row, engine, ratio in shown:
        of_row = [where for where, value in measured if value == ratio and engine in where]
        assert any(all(word.replace("batch ", "batch") in where for word in words_of_row) for where in of_row), ratio


@measured
def test_numbers_in_words_are_on_the_page_or_in_the_table(name):
    entry = RESOLVED[name]
    known = page_of(entry) + json.dumps(entry["rows"]) + entry["claim"]
    known = set(numbers(known.replace("`", "")))
    for key in ("here", "ours", "why", "size", "setting", "tried", "checks"):
        said = numbers(re.sub(r"Figure \d|of 0 tasks", "", entry.get(key, "")))
        assert not set(said) - known, key


@pytest.mark.parametrize("paper", PAPERS)
def test_the_picture_of_a_paper_is_one_of_a_statement(paper):
    pictures = [each["file"] for entry in PAPERS[paper]["statements"] for each in entry.get("pictures", [])]
    assert PAPERS[paper].get("picture") in (pictures or [None])


# Where the numbers of a paper's cells stand, besides its statements
PAGES = {
    "feedback": ["toy_tasks.md", "feedback_small.md", "multi30k.md"],
    "all_attention": ["all_attention_small.md"],
    "active_memory": ["active_memory_lines.md", "active_memory_table4.md"],
    "skip_cross_head": ["skip_cross_head_small.md"],
}
HEADINGS = {"feedback": "Feedback", "all_attention": "All-", "active_memory": "Active", "skip_cross_head": "Skip"}


@pytest.mark.parametrize("paper", PAGES)
def test_results_so_far_are_on_a_page(paper):
    """The last column of the tables in evidence.md."""
    texts = [(BENCHMARKS / page).read_text(encoding="utf-8") for page in PAGES[paper]]
    known = set(numbers(" ".join([json.dumps(PAPERS[paper]), *texts])))
    (header, *rows), *_ = statement_numbers.tables(BENCHMARKS / "evidence.md", HEADINGS[paper])
    said = {row[0]: set(numbers(row[header.index("so far")])) - known for row in rows}
    assert len(said) > 4 and not any(said.values()), said


def test_every_row_of_the_queue_is_in_a_statement():
    sources = [cell for entry in ENTRIES.values() if "rows" in entry for _, _, _, cell in cells(entry)]
    named = [cell["cell"] for cell in sources if isinstance(cell, dict) and cell.get("file") == "evidence/rows.jsonl"]
    shown = {name for names in named for name in ([names] if isinstance(names, str) else names)}
    rows = results_table.read_rows(BENCHMARKS / "evidence/rows.jsonl")
    no_paper = {name for name in rows if name.startswith("memory-")}  # memory_table.py shows them
    assert rows.keys() - no_paper == shown


def test_the_readme_counts_the_verdicts():
    count = statements.count_verdicts(PAPERS)
    said = "Of {} statements of the papers, {} hold in our runs and {} do not. {} are undecided, and {} were not tried"
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert said.format(count.total(), *(count[verdict] for verdict in statements.VERDICTS)) in text


LM = {"file": "char_lm.jsonl", "cell": ["feedback-seed1", "feedback-seed2"], "column": "test bpc"}
SPEEDS = {"section": "Training", "column": "ratio"}
SHC = {"paper": "skip_cross_head", "table": "Table 1", "row": "skip-cross-head-1600", "column": "dev bpc"}


@pytest.mark.parametrize("source, page, number", [
    (LM, "char_lm.md", "1.613 (1.611 to 1.615; n = 2)"),
    (LM | {"cell": ["feedback-seed1"]}, "char_lm.md", "1.611 (n = 1)"),
    (SHC, "", "1.060"),  # with its last zero
    (LM | {"cell": "nobody"}, "char_lm.md", None),
    (SPEEDS | {"row": "3"}, "translation_speed.md", None),
])  # fmt: skip
def test_the_number_of_a_source(source, page, number):
    if number:
        assert statement_numbers.number(source, page) == number
    else:
        with pytest.raises(UserError, match="which is not there; correct it"):
            statement_numbers.number(source, page)


@pytest.mark.parametrize("kind, pairs, margin, said", [
    ("difference", [("1.53", "1.50"), ("1.48", "1.50")], 0.03, "within a margin of 0.03 bits"),
    ("difference", [("1.52", "1.50"), ("1.60", "1.50")], 0.03, "within and beyond a margin of 0.03 bits"),
    ("ratio", [("0.90 (0.85 to 0.93)",)], 0.05, "beyond a margin of 5 %"),
    ("ratio", [("1.00 (0.96 to 1.06)",)], 0.05, "within and beyond a margin of 5 %"),
    ("ratio", [("0.93",), ("1.06",)], 0.05, "beyond a margin of 5 % on both sides"),
])  # fmt: skip
def test_a_claim_of_no_difference_is_judged_by_its_margin(kind, pairs, margin, said):
    names = [[f"{number}, {side}" for side in range(len(pair))] for number, pair in enumerate(pairs)]
    rows = [{"": name, "here": cell} for row in zip(names, pairs) for name, cell in zip(*row)]
    compare = {"as": kind, "pairs": names, "ours": "here", "unit": "bits", "claims": "level", "margin": margin}
    assert statements.direction({"item": "", "compare": compare, "tables": [rows]}) == said
