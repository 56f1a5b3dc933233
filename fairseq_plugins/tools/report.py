"""Write a page that says which of the papers' claims replicate, and shows the results of your own runs.

    python -m fairseq_plugins.tools.report --out report.html
    python -m fairseq_plugins.tools.report runs/char_lm runs/mine/train.log --out report.html

The first part has a table for each of the four papers: our verdict on each claim, the paper's number and ours. Below
are the reasons, sizes, tables, pictures and commands of each verdict, folded.

The second part is of RESULTS: folders of recipes or their results.jsonl, folders of trainings or their train.log. A
table is shown with the mean over seeds, the commands that made it, and the pictures that the recipe drew. For trainings
there are curves of the validation loss, ten a picture, the learned spans and the weights of the layers in the feedback
memory.

The page is one file without links to other files or hosts. It is readable on a phone and in print.
"""

import html
import json
from datetime import date
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import NotWritten, write_text
from fairseq_plugins.tools.lib import own_results, statements
from fairseq_plugins.tools.lib.command import Command
from fairseq_plugins.tools.lib.html_page import figure, page
from fairseq_plugins.tools.lib.markdown_text import literal
from fairseq_plugins.tools.lib.out_file import HTML

TITLE = "Which claims replicate"
ABOUT = (
    "The tables and figures of four papers, and our verdicts. Everything ran on CPUs, unless a GPU is named, and most "
    "of it far below the papers' sizes. A table or figure has a row for each part that is judged alone. The rule:"
)
COMMANDS = (
    "Commands run in the root of the repository, in the environment of its README. DIR is a folder of raw text; "
    "without `RAW=DIR` or `--raw DIR` the text is downloaded. `benchmarks/evidence.sh` skips runs that have results "
    "here; `ROWS=mine.jsonl` before it trains them again. Differences in the text are of unrounded numbers."
)


def main():
    parser = Command(__doc__)
    parser.option("results", Path, None, "RESULTS", "folders of recipes or trainings, results.jsonl, logs", nargs="*")
    parser.option("--out", HTML, None, "FILE", "such as report.html; an earlier one is replaced", required=True)
    args = parser.parse()
    content = page(TITLE, report(statements.read_papers(), own_results.find_all(args.results)))
    try:
        write_text(args.out, content)
    except NotWritten as error:
        raise UserError(f"--out: {str(error).rstrip('.')}; name a file in a folder where you may write.") from error
    print(f"wrote {args.out}")


def report(papers: statements.Papers, own: list[own_results.Results]) -> str:
    """The page in Markdown."""
    count = statements.count_verdicts(papers)
    rules = [f"- **{verdict}** ({count[verdict]}): {rule}" for verdict, rule in statements.VERDICTS.items()]
    parts = [f"Made on {date.today().isoformat()}.", contents(own), ABOUT, "\n".join(rules), statements.EFFECT]
    parts += [statements.overview(papers, lambda name, _, place: f"#{name}-{place}", lambda _: "")]
    parts += [heading(2, "details", "Details"), COMMANDS]
    for name, paper in papers.items():
        parts += [f"### {paper['title']}"]
        parts += [details(each, f"{name}-{place}") for place, each in enumerate(paper["statements"], 1)]
    if own:
        parts += [heading(2, "own", "Your own results")]
        parts += [
            own_results.section(results, heading(3, f"own-{n}", literal(results.name)))
            for n, results in enumerate(own, 1)
        ]
    words = json.loads((statements.FOLDER / "words.json").read_text(encoding="utf-8"))
    parts += [heading(2, "words", "Words"), "\n".join(f"- **{word}**: {meaning}" for word, meaning in words.items())]
    return "\n\n".join(parts)


def heading(level: int, name: str, words: str) -> str:
    """A heading that a link leads to."""
    return f'<h{level} id="{name}" markdown="1">{words}</h{level}>'


def contents(own: list[own_results.Results]) -> str:
    """Links to the details, to one's own results, and to the glossary."""
    links = [f"[{literal(results.name)}](#own-{place})" for place, results in enumerate(own, 1)]
    return " · ".join(["[Details](#details)", *links, "[Words](#words)"])


def details(statement: dict, name: str) -> str:
    """A statement, folded up to its verdict."""
    summary = f"{statement['verdict']}: {statement['item']}"
    body = statements.details(statement, picture)
    return f'<details id="{name}" markdown="1">\n<summary>{html.escape(summary)}</summary>\n\n{body}\n\n</details>'


def picture(shown: dict) -> str:
    png = (statements.FOLDER / Path(shown["file"]).name).read_bytes()
    return figure(png, shown["alt"], shown["caption"])


if __name__ == "__main__":
    main()
