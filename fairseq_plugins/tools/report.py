"""What of the papers holds, and what runs of your own gave, as one page to look at.

    python -m fairseq_plugins.tools.report --out report.html
    python -m fairseq_plugins.tools.report runs/char_lm runs/fig3_corridor --out report.html

The first part goes through the tables and figures of the four papers: what each says, whether it held here, our numbers
beside the paper's, pictures, and the pages with sizes and commands. It comes from benchmarks/statements.json.

The second part is of RESULTS, folders of recipes or their results.jsonl: for each its table, with the mean over seeds,
the commands that made it, and the pictures that the recipe drew. For trainings with a log there are curves of the
validation loss, the learned spans and the weights of the layers in the feedback memory.

The page is one file without links to other files or hosts. It is readable on a phone and in print.
"""

import argparse
import base64
import html
import io
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.tools import plot, results_table
from fairseq_plugins.tools.lib import training_log

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
VERDICTS = ("holds", "does not hold", "not decided", "not tried")
STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 0 1rem 3rem }
img { max-width: 100%; height: auto; background: white }
.table { overflow-x: auto }
table { border-collapse: collapse; margin: .5rem 0 }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; vertical-align: top }
section { border-top: 1px solid #8888; margin-top: 1.5rem; break-inside: avoid }
.verdict { display: inline-block; padding: 0 .5rem; border-radius: .3rem; color: white }
.holds { background: #15703a } .does-not-hold { background: #b3261e }
.not-decided { background: #7a5900 } .not-tried { background: #5f6368 }
.source { font-size: .85rem }
@media (max-width: 30rem) { table { font-size: .85rem } th, td { padding-right: .4rem } }
@media print { body { max-width: none; font-size: 10pt } }
pre, code { overflow-wrap: anywhere; white-space: pre-wrap }
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=Path, metavar="RESULTS", help="folders of recipes, or results.jsonl")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="such as report.html")
    args = parser.parse_args()
    papers = statements()
    if not papers and not args.results:
        raise UserError("there is nothing to report here: name folders of recipes, such as runs/char_lm.")
    parts = [summary(papers), *(paper(name, entry) for name, entry in papers.items())] if papers else []
    parts += [own_results(table) for path in args.results for table in tables_in(path)]
    write_whole(args.out, lambda path: path.write_text(page(parts), encoding="utf-8"))
    print(f"wrote {args.out}")


def page(parts: list[str]) -> str:
    title = "What of the papers holds"
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n'
        f"<h1>{title}</h1>\n" + "\n".join(parts) + "\n</html>\n"
    )


# The papers


def statements() -> dict[str, dict]:
    """The statements of each paper; none where the suite is installed without benchmarks/."""
    file = BENCHMARKS / "statements.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def summary(papers: dict[str, dict]) -> str:
    """How many statements of each paper have which verdict."""
    rows = []
    for name, entry in papers.items():
        verdicts = [statement["verdict"] for statement in entry["statements"]]
        counts = {verdict: str(verdicts.count(verdict)) for verdict in VERDICTS}
        rows.append({"paper": f'<a href="#{name}">{text(entry["title"])}</a>', **counts})
    words = "Nearly all of it ran on CPUs, far below the papers' sizes. <em>Not decided</em> means: at the size tried."
    return f"<p>{words}</p>{table(rows)}"


def paper(name: str, entry: dict) -> str:
    return f'<h2 id="{name}">{text(entry["title"])}</h2>\n' + "\n".join(map(statement, entry["statements"]))


def statement(entry: dict) -> str:
    verdict = entry["verdict"]
    parts = [
        f"<section><h3>{text(entry['item'])}</h3>",
        f"<p>The paper: {text(entry['says'])}<br>"
        f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span> {text(entry.get("why", ""))}</p>',
        table([{column: text(value) for column, value in row.items()} for row in entry.get("rows", [])]),
        *(image((BENCHMARKS / each["file"]).read_bytes(), each["alt"]) for each in entry.get("pictures", [])),
    ]
    if "page" in entry:
        parts.append(
            f'<p class="source">{text(entry["size"])}. {text(entry["date"])}, <code>{text(entry["command"])}</code>; '
            f"all commands and runs: <code>benchmarks/{text(entry['page'])}</code></p>"
        )
    return "\n".join(parts) + "</section>"


# Results of one's own


def tables_in(path: Path) -> list[Path]:
    """The tables of a folder, or the file itself.

    Raises:
        UserError: there is none
    """
    found = sorted(path.rglob("results.jsonl")) if path.is_dir() else [path] if path.is_file() else []
    if not found:
        raise UserError(
            f"{path} has no results.jsonl; name the --out of a recipe, or wait until its first row is there."
        )
    return found


def own_results(file: Path) -> str:
    """A section for one table: means over seeds where there are some, every row, the commands, the date of the last row
    and pictures."""
    try:
        rows = results_table.read_rows(file)
    except ValueError as error:
        raise UserError(str(error)) from None
    means = results_table.means(rows)
    commands = dict.fromkeys(row["command"] for row in rows.values() if "command" in row)
    written = date.fromtimestamp(file.stat().st_mtime).isoformat()
    return "\n".join(
        [
            f"<section><h2>{text(file.parent)}</h2>",
            cells(means) if len(means) < len(rows) else "",
            cells(rows),
            *(f"<pre>{text(command)}</pre>" for command in commands),
            f'<p class="source">last row: {written}</p>',
            *pictures(file.parent),
            "</section>",
        ]
    )


def cells(rows: dict[str, dict]) -> str:
    """Rows of results_table as a table, without their commands."""
    return table(
        [
            {"": text(cell)}
            | {name: text(results_table.shown(value)) for name, value in row.items() if name != "command"}
            for cell, row in rows.items()
        ]
    )


def pictures(folder: Path) -> Iterator[str]:
    """Those that the recipe drew, and those of its trainings."""
    for file in sorted(folder.glob("*.png")):
        yield image(file.read_bytes(), f"{file.stem.replace('_', ' ')} of {folder.name}")
    logs = logs_in(folder)
    losses = [run for run, log in logs.items() if log.series("valid", "loss")[0]]
    if losses:
        runs = [f"{run.relative_to(folder)}={run}" for run in losses]
        yield drawn(plot.draw_curves, f"loss over updates of {len(runs)} trainings", runs=runs, metric="loss")
    for run, log in logs.items():
        for pattern, draw, what in LEARNED:
            if log.names(pattern):
                yield drawn(draw, f"{what} of {run.name}", run=run)


def logs_in(folder: Path) -> dict[Path, training_log.TrainingLog]:
    """The logs of trainings below the folder; one that has no figures yet is left out."""
    found = {}
    for file in sorted(folder.rglob("train.log")):
        with suppress(UserError):
            found[file.parent] = training_log.read(file)
    return found


# what --log-learned writes into a log: names there, what draws them, what it is
LEARNED: list[tuple[str, Callable, str]] = [
    (r"span_\d+_\d+", plot.draw_spans, "span of each head by layer"),
    (r"memory_\d+", plot.draw_memory, "weight of each layer in the memory over updates"),
]


def drawn(draw: Callable, description: str, **arguments) -> str:
    """A picture of `plot`."""
    data = io.BytesIO()
    draw(argparse.Namespace(**arguments)).savefig(data, format="png", dpi=110)
    return image(data.getvalue(), description)


# HTML


def text(value) -> str:
    return html.escape(str(value))


def image(data: bytes, description: str) -> str:
    encoded = base64.b64encode(data).decode()
    return f'<figure><img src="data:image/png;base64,{encoded}" alt="{text(description)}"></figure>'


def table(rows: list[dict[str, str]]) -> str:
    """Rows of cells that are HTML already; the columns in the order in which they first appear."""
    if not rows:
        return ""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    head = "".join(f"<th>{text(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{row.get(column, '')}</td>" for column in columns) + "</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


if __name__ == "__main__":
    main()
