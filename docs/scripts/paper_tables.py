"""Tables of recipes/PAPER/paper.json, settings with their sources and published numbers; and of the verdicts on the
papers' statements."""

import json
import re
from pathlib import Path

from fairseq_plugins.tools.lib import statements
from fairseq_plugins.tools.lib.markdown_text import code, table

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def read(paper: str) -> dict:
    """The paper's file, with numbers as they are written there."""
    text = (RECIPES / paper / "paper.json").read_text(encoding="utf-8")
    return json.loads(text, parse_float=Number, parse_int=Number)


class Number(str):
    """A number as it is written: 1e-7 stays 1e-7, and 1.060 keeps its zero."""

    __repr__ = str.__str__


def settings(paper: str) -> str:
    """One row for each group of settings that neither the paper nor its code gives, with our reasons; and for the
    choices that no option changes."""
    content = read(paper)
    groups = content["settings"] | content.get("choices", {})
    rows = [[name, "<br>".join(reasons)] for name, sources in groups.items() if (reasons := our_reasons(sources))]
    return table(["part of a recipe", "our setting: reason"], rows)


NO_CHOICE = {"ours: without a meaning here", "ours: of another paper", "ours: of other papers"}


def our_reasons(sources: dict) -> list[str]:
    """The settings whose source is ours, each with its reason; without those that have no effect."""
    ours = {
        source: values for source, values in sources.items() if source.startswith("ours") and source not in NO_CHOICE
    }
    return [
        f"{', '.join(options(values) if isinstance(values, dict) else values)}: {source.removeprefix('ours: ')}"
        for source, values in ours.items()
    ]


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
    """A row for each table, figure or section of the paper: its numbers, and ours of its statements."""
    tables = read(paper)["published"]
    judged = statements.read_papers()[paper]["statements"]
    rows = []
    for where in dict.fromkeys(map(place, [*tables, *(each["item"] for each in judged)])):
        papers = [numbers(rest(name, where), rows) for name, rows in tables.items() if place(name) == where]
        here = [each for each in judged if place(each["item"]) == where]
        ours = [measured(each, where) for each in here if "tables" in each]
        rows.append([where, "<br>".join(papers), "<br>".join(ours or ["not tried"] * bool(here))])
    return table(["", "the paper", "ours, and the verdict"], rows)


def place(name: str) -> str:
    """The table, figure or section at the beginning of a name; a name without one is a place of its own."""
    found = re.match(r"(?:Appendix \w, )?((?:Table|Figure|Section)s? [\d.]+)", name, re.IGNORECASE)
    return re.sub("s (?=[0-9])", " ", found[1]).capitalize() if found else name


def numbers(title: str, rows: dict) -> str:
    """A table of the paper on few lines: first its title and the names of its columns, then each row."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [f"{row}: {'; '.join(str(values.get(column, '–')) for column in columns)}" for row, values in rows.items()]
    return "<br>".join([f"*{': '.join(filter(None, [title, '; '.join(columns)]))}*", *lines])


def measured(statement: dict, where: str) -> str:
    """Our numbers of a statement, and its verdict."""
    title = rest(statement["item"], where) or statement["claim"].rstrip(".")
    return f"{title}: {statements.ours(statement)} ({statement['verdict']})"


def rest(name: str, where: str) -> str:
    """A name without its place."""
    begin = r"^(Appendix \w, )?(Table|Figure|Section)s? [\d.]+(, |: |$)"
    return re.sub(begin, "", name, flags=re.IGNORECASE) if name != where else ""


def rules(_: str) -> str:
    """The rule by which a statement gets its verdict, and how many statements have which."""
    count = statements.count_verdicts(statements.read_papers())
    return "\n".join(
        f"- **{name}** ({count[name]} of {count.total()}): {rule}" for name, rule in statements.VERDICTS.items()
    )


# the notes of a page on its commands, if they have these words
NOTES = {
    "evidence.sh": "`benchmarks/evidence.sh` skips runs that have results: put `ROWS=mine.jsonl` before it to train "
    "them again ([Evidence](evidence.md)). Differences in the text are of unrounded numbers.",
    "DIR": "In commands `DIR` is your folder of data, with ptb/, multi30k/, enwik8/ and wikitext-2/ in it.",
}


def held(page: str) -> str:
    """The claims that a page of benchmarks/ has measured, and the verdict on each; for the top of that page."""
    found = [each for each in statements.all_statements(statements.read_papers()) if each.get("page") == f"{page}.md"]
    items = {kind: "; ".join(sized(each) for each in found if each["verdict"] == kind) for kind in statements.VERDICTS}
    rule = "../docs/results.md#which-claims-replicate"
    lines = [f"- [**{kind}**]({rule}): {those}" for kind, those in items.items() if those]
    lines[0] = lines[0].replace("): ", ") (in brackets our effect beside the paper's): ", 1)
    commands = " ".join(command["run"] for each in found for command in each["commands"])
    notes = [note for word, note in NOTES.items() if word in commands]
    return "\n\n".join(["\n".join(lines), *([" ".join(notes)] if notes else [])])


def sized(statement: dict) -> str:
    size = statements.size(statement)
    return f"{statement['item']} ({size})" if size else statement["item"]


def results(_: str) -> str:
    """The verdicts of all papers, each with a link to the page that has its measurements or the paper's."""

    def link(paper: str, statement: dict, place: int) -> str:
        return f"../benchmarks/{statement['page']}" if "page" in statement else f"papers/{paper}.md"

    def picture(shown: dict) -> str:
        return f"![{shown['alt']}](../benchmarks/{shown['file']})\n\n*{shown['caption']}*"

    return statements.overview(statements.read_papers(), link, picture)
