"""Tables of what recipes/PAPER/paper.json says, settings with their sources and published numbers; and of what came of
the papers' statements."""

import json
import re
from pathlib import Path

from markdown_table import code, table

from fairseq_plugins.tools.lib import evidence

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def read(paper: str) -> dict:
    """The paper's file, with numbers as they are written there."""
    text = (RECIPES / paper / "paper.json").read_text(encoding="utf-8")
    return json.loads(text, parse_float=Number, parse_int=Number)


class Number(str):
    """A number as it is written: 1e-7 stays 1e-7, and 1.060 keeps its zero."""

    __repr__ = str.__str__


def settings(paper: str) -> str:
    """One row for each group of settings and each source, and of the choices that no option changes."""
    content = read(paper)
    rows = [
        ("" if number else name, "<br>".join(each(values)), source)
        for kind, each in (("settings", options), ("choices", list))
        for name, sources in content.get(kind, {}).items()
        for number, (source, values) in enumerate(sources.items())
    ]
    return table(["what", "settings", "source"], rows)


def options(values: dict) -> list[str]:
    return [setting(option, value) for option, value in values.items()]


def setting(option: str, value) -> str:
    if isinstance(value, dict):
        return f"`{option}` is one of " + ", ".join(code(each) for each in value["one of"])
    return f"`{option} = {value}`"


def initial_weights(paper: str) -> str:
    """One row for each code that first weights are of, and each source."""
    rows = [
        (", ".join(map(code, architectures)), rules, source)
        for rules, sources in read(paper)["initial weights"].items()
        for source, architectures in sources.items()
    ]
    return table(["architectures", "first weights as of", "source"], rows)


def published(paper: str) -> str:
    """A table for each table or figure of the paper that its recipes print numbers of."""
    parts = []
    for name, rows in read(paper)["published"].items():
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        cells = [[row, *(str(numbers.get(column, "")) for column in columns)] for row, numbers in rows.items()]
        parts.append(f"**{name}**\n\n{table(['', *columns], cells)}")
    return "\n\n".join(parts)


def verdicts(_: str) -> str:
    """The rule by which a statement gets its verdict, and how many statements have which."""
    count = evidence.count_verdicts(evidence.statements())
    return "\n".join(
        f"- **{verdict}** ({count[verdict]} of {count.total()}): {rule}" for verdict, rule in evidence.VERDICTS.items()
    )


# what a page says of its commands, where they have these words
NOTES = {
    "evidence.sh": "`benchmarks/evidence.sh` passes over what has its numbers: put `ROWS=mine.jsonl` before it to "
    "train it again ([Evidence](evidence.md)). Differences in the text are of unrounded numbers.",
    "DIR": "In commands `DIR` is your folder of data, with ptb/, multi30k/, enwik8/ and wikitext-2/ in it.",
}


def held(page: str) -> str:
    """What the statements of a page of benchmarks/ say, and the verdict on each; for the top of that page."""
    found = [each for each in evidence.all_statements() if each.get("page") == f"{page}.md"]
    rows = [[each["item"], each["says"], each["verdict"]] for each in found]
    verdicts = table(["", "the paper says", "[verdict](../docs/results.md#what-of-the-papers-holds)"], rows).rstrip()
    commands = " ".join(command["run"] for each in found for command in each["commands"])
    notes = [note for word, note in NOTES.items() if word in commands]
    return "\n\n".join([verdicts, *([" ".join(notes)] if notes else [])])


def statements(_: str) -> str:
    """What benchmarks/statements.json says of each statement, with a link to what ``numbers`` has of it."""
    parts = []
    for paper in evidence.statements().values():
        tried = [entry for entry in paper["statements"] if "page" in entry]
        rows = [[to_numbers(entry), entry["says"], entry["here"], entry["verdict"]] for entry in tried]
        others = [[each["item"], each["says"], each["why"]] for each in paper["statements"] if "page" not in each]
        parts += [f"**{paper['title']}**", table(["", "the paper says", "here", "verdict"], rows).rstrip()]
        parts += ["Not tried:", table(["", "the paper says", "why"], others).rstrip()]
    return "\n\n".join(parts)


def numbers(_: str) -> str:
    """What is behind the verdicts: for each statement that was tried the reasons and the numbers."""
    parts = []
    for paper in evidence.statements().values():
        parts += [f"### {paper['title']}", *(measured(entry) for entry in paper["statements"] if "tables" in entry)]
    return "\n\n".join(parts)


def measured(entry: dict) -> str:
    source = f"*Size*: {entry['size']} ([{evidence.dates(entry)}](../benchmarks/{entry['page']}))."
    notes = [f"*{title}*: {entry[key]}" for key, title in evidence.NOTES.items() if key in entry]
    reasons = f"**{entry['verdict']}**: {entry['here']} {entry['why']}"
    tables, words = evidence.without_shared(entry["tables"])
    shown = [table([*rows[0]], [[*row.values()] for row in rows]).rstrip() for rows in tables]
    return "\n\n".join([f"#### {entry['item']}", reasons, *shown, *filter(None, [words]), source, *notes])


def to_numbers(entry: dict) -> str:
    """A link to what ``measured`` has of a statement."""
    anchor = re.sub(r"[^\w\- ]", "", entry["item"].lower()).replace(" ", "-")
    return f"[{entry['item']}](#{anchor})"
