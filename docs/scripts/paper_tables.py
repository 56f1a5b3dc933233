"""Tables of recipes/PAPER/paper.json, settings with their sources and published numbers; and of the verdicts on the
papers' statements."""

import json
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


def rules(_: str) -> str:
    """The rule by which a statement gets its verdict, and how many statements have which."""
    count = statements.count_verdicts(statements.read_papers())
    return "\n".join(
        f"- **{name}** ({count[name]} of {count.total()}): {rule}" for name, rule in statements.VERDICTS.items()
    )


# what a page says of its commands, where they have these words
NOTES = {
    "evidence.sh": "`benchmarks/evidence.sh` skips runs that have results: put `ROWS=mine.jsonl` before it to train "
    "them again ([Evidence](evidence.md)). Differences in the text are of unrounded numbers.",
    "DIR": "In commands `DIR` is your folder of data, with ptb/, multi30k/, enwik8/ and wikitext-2/ in it.",
}


def held(page: str) -> str:
    """The claims that a page of benchmarks/ has measured, and the verdict on each; for the top of that page."""
    found = [each for each in statements.all_statements(statements.read_papers()) if each.get("page") == f"{page}.md"]
    rows = [[each["item"], each["claim"], statements.verdict(each)] for each in found]
    verdicts = table(["", "the paper's claim", "[verdict](../docs/results.md#which-claims-replicate)"], rows)
    commands = " ".join(command["run"] for each in found for command in each["commands"])
    notes = [note for word, note in NOTES.items() if word in commands]
    return "\n\n".join([verdicts, *([" ".join(notes)] if notes else [])])


def results(_: str) -> str:
    """The verdicts of all papers, each with a link to the page that has its measurements or the paper's."""

    def link(paper: str, statement: dict, place: int) -> str:
        return f"../benchmarks/{statement['page']}" if "page" in statement else f"papers/{paper}.md"

    def picture(shown: dict) -> str:
        return f"![{shown['alt']}](../benchmarks/{shown['file']})\n\n*{shown['caption']}*"

    return statements.overview(statements.read_papers(), link, picture)
