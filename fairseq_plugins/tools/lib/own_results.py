"""A user's own runs in Markdown: the tables of recipes, and the logs of trainings."""

import argparse
import io
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import plot, results_table
from fairseq_plugins.tools.lib import training_log
from fairseq_plugins.tools.lib.html_page import figure
from fairseq_plugins.tools.lib.markdown_text import code_block, literal, table
from fairseq_plugins.tools.lib.pictures import describe, read_description

RECIPES_TABLE, LOG = "results.jsonl", "train.log"
PNG = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"  # how the file begins and ends


@dataclass
class Results:
    """The rows and trainings that are found in one place.

    Attributes:
        where: the folder, or the file
        table: the file of the rows, if there is one
        rows: by cell
        logs: of the trainings there, by their files
        name: of the place, as the page shows it
    """

    where: Path
    table: Path | None
    rows: results_table.Rows
    logs: dict[Path, training_log.TrainingLog]
    name: str = ""


def find_all(paths: list[Path]) -> list[Results]:
    """The results in all of these paths. A table or a training that is found twice is shown once.

    Raises:
        UserError: a path has no results, or a file is damaged
    """
    seen: set[Path] = set()
    found: list[Results] = []
    for results in (results for path in paths for results in find(path)):
        results.logs = {file: log for file, log in results.logs.items() if file.resolve() not in seen}
        if results.table and results.table.resolve() in seen:
            results.rows = {}
        seen.update(file.resolve() for file in (results.table, *results.logs) if file)
        if results.rows or results.logs:
            found.append(results)
    if found:  # pages are for others: they show no folders above all of the places
        above = os.path.commonpath([results.where.resolve().parent for results in found])
        for results in found:
            results.name = results.where.resolve().relative_to(above).as_posix()
    return found


def find(path: Path) -> list[Results]:
    """The results of a file, a results.jsonl or a log. Or those of a folder: of each results.jsonl below it with the
    trainings beside it, then of all trainings there.

    Raises:
        UserError: there is nothing, or a file is damaged
    """
    if path.is_dir():
        found = [of_recipe(file) for file in sorted(path.rglob(RECIPES_TABLE))]
        found += [Results(path, None, {}, logs)] if (logs := logs_in(path)) else []
        if not found:
            raise UserError(
                f"{path} has neither a results.jsonl nor a train.log with metrics; name the --out of a recipe or the "
                "folder of a training, or wait until its first metrics are there."
            )
        return found
    if not path.exists():
        raise UserError(f"{path} does not exist; name a folder of runs, a results.jsonl or a train.log.")
    if path.suffix == ".jsonl" or not path.is_file():
        return [of_recipe(path)]
    try:
        return [Results(path, None, {}, {path: training_log.read(path)})]
    except UserError:
        raise UserError(
            f"{path} is neither a results.jsonl nor a log of fairseq-train with metrics of a training; name one of "
            "these, or the --out of a recipe."
        ) from None


def of_recipe(file: Path) -> Results:
    """The rows of a table, and the trainings beside it. Files beside a table of another name than results.jsonl may be
    of other runs."""
    rows = results_table.read_rows(file)
    if not rows:
        raise UserError(f"{file} has no rows yet; wait until its recipe has written the first, or leave it out.")
    if file.name == RECIPES_TABLE:
        return Results(file.parent, file, rows, logs_in(file.parent))
    return Results(file, file, rows, {})


def logs_in(folder: Path) -> dict[Path, training_log.TrainingLog]:
    """The logs of trainings below the folder; one that has no metrics yet is left out."""
    found = {}
    for file in sorted(folder.rglob(LOG)):
        with suppress(UserError):
            found[file] = training_log.read(file)
    return found


def section(results: Results, heading: str) -> str:
    """In Markdown: means over seeds where there are some, every row, the commands, the date of the last entry, and
    pictures."""
    rows = results.rows
    warnings = map(literal, map(results_table.warning, results_table.differing(rows)))
    parts = [heading, *cells(results_table.means(rows)), *warnings, *cells(rows), *commands(rows)]
    last = max(file.stat().st_mtime for file in ([results.table] if results.table else results.logs))
    parts += [f"Last entry: {date.fromtimestamp(last).isoformat()}."]
    parts += [] if rows else ["The first lines of a training's log have all its settings."]
    return "\n\n".join([*parts, *pictures(results)])


def cells(rows: results_table.Rows) -> list[str]:
    """Rows of results_table, without their commands; nothing where there are none."""
    columns = dict.fromkeys(column for row in rows.values() for column in row if column != "command")
    lines = [
        [literal(cell), *(literal(results_table.shown(row.get(column, ""))) for column in columns)]
        for cell, row in rows.items()
    ]
    return [table(["", *map(literal, columns)], lines)] if rows else []


def commands(rows: results_table.Rows) -> list[str]:
    blocks = [*map(code_block, dict.fromkeys(str(row["command"]) for row in rows.values() if "command" in row))]
    return ['<details markdown="1">\n<summary>Commands</summary>', *blocks, "</details>"] if blocks else []


# names of the metrics that --log-learned writes into a log, what draws them, and a caption
LEARNED: list[tuple[str, Callable, str]] = [
    (plot.SPAN, plot.draw_spans, "Span of each head by layer, in tokens"),
    (plot.MEMORY, plot.draw_memory, "Weight of each layer in the feedback memory over updates"),
]


def pictures(results: Results) -> Iterator[str]:
    """The pictures that the recipe drew, and those of its trainings."""
    files = sorted(results.where.glob("*.png")) if results.rows and results.where.is_dir() else []
    for file in filter(Path.is_file, files):
        yield recipes_picture(file, results.name)
    runs = [file for file, log in results.logs.items() if log.has("loss")]
    if runs:
        named = [f"{training(file, results).replace('=', ' ')}={file}" for file in runs]
        yield drawn(plot.draw_curves, "Loss over updates; lower is better.", runs=named, metric="loss")
    for file, log in results.logs.items():
        for pattern, draw, caption in LEARNED:
            if log.names(pattern):
                yield drawn(draw, f"{caption}, of {training(file, results)}.", run=file)


def training(file: Path, results: Results) -> str:
    """The name of a training in the place where its log was found."""
    if file == results.where:
        return file.name
    inside = file.parent.relative_to(results.where)
    return str(inside) if inside.parts else results.where.resolve().name


def recipes_picture(file: Path, name: str) -> str:
    data = file.read_bytes()
    if not (data.startswith(PNG[0]) and data.endswith(PNG[1])):
        return f"{literal(file.name)} is damaged and left out; run the recipe's plot again."
    what = f"{file.stem.replace('_', ' ')}, of {name}"
    return figure(data, f"{what}. {read_description(file) or 'The table above has its numbers.'}", f"{what}.")


def drawn(draw: Callable, caption: str, **arguments) -> str:
    """A picture of `plot`, or why there is none."""
    try:
        picture = draw(argparse.Namespace(**arguments))
    except UserError as error:
        return literal(error)
    data = io.BytesIO()
    picture.savefig(data, format="png", dpi=110)
    return figure(data.getvalue(), f"{caption} {describe(picture)}", caption)
