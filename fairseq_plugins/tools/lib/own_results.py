"""A user's own runs in Markdown: the tables of recipes, and the logs of trainings."""

import argparse
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import plot, results_table
from fairseq_plugins.tools.lib import training_log
from fairseq_plugins.tools.lib.html_page import figure
from fairseq_plugins.tools.lib.markdown_text import code_block, literal, table
from fairseq_plugins.tools.lib.pictures import describe, read_description

RECIPES_TABLE = "results.jsonl"
PNG = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"  # how the file begins and ends


@dataclass
class Results:
    """The rows and trainings that are found in one place.

    Attributes:
        name: of the place, as the page shows it
        where: the folder, or the file
        rows: of its results.jsonl, by cell
        written: when the last of them was
        logs: of the trainings there, by the folder of each
    """

    name: str
    where: Path
    rows: results_table.Rows = field(default_factory=dict)
    written: str = ""
    logs: dict[Path, training_log.TrainingLog] = field(default_factory=dict)


def find_all(paths: list[Path]) -> list[Results]:
    """The results in all of these paths. A training that is found twice is shown once. Places of one name are told
    apart by the folders that they are in.

    Raises:
        UserError: there is nothing, or a file is damaged
    """
    found: dict[Path, Results] = {}
    trainings: set[Path] = set()
    for results in chain.from_iterable(map(find, paths)):
        results.logs = {run: log for run, log in results.logs.items() if training_folder(run) not in trainings}
        trainings.update(map(training_folder, results.logs))
        if results.rows or results.logs:
            found.setdefault(results.where.resolve(), results)
    names = Counter(results.name for results in found.values())
    for where, results in found.items():
        if names[results.name] > 1:
            results.name = next(name for name in endings(where) if sum(name in endings(other) for other in found) == 1)
    return [*found.values()]


def endings(path: Path) -> list[str]:
    """c, b/c and a/b/c of a/b/c"""
    return ["/".join(path.parts[-number:]) for number in range(1, len(path.parts) + 1)]


def training_folder(run: Path) -> Path:
    """The folder of a training that is named by it, or by its train.log."""
    return (run.parent if run.name == "train.log" else run).resolve()


def find(path: Path) -> list[Results]:
    """The results of a file, a results.jsonl or a log. Or those of a folder: of each results.jsonl below it with the
    trainings beside it, then of all trainings there.

    Raises:
        UserError: there is nothing, or a file is damaged
    """
    if path.is_dir():
        found = [of_recipe(file, short(file.parent, path)) for file in sorted(path.rglob(RECIPES_TABLE))]
        if logs := logs_in(path):
            found.append(Results(short(path, path), path, logs=logs))
        if not found:
            raise UserError(
                f"{path} has neither a results.jsonl nor a train.log with metrics; name the --out of a recipe or the "
                "folder of a training, or wait until its first metrics are there."
            )
        return found
    if not path.exists():
        raise UserError(f"{path} does not exist; name a folder of runs, a results.jsonl or a train.log.")
    if path.suffix == ".jsonl" or not path.is_file():
        return [of_recipe(path, short(path.parent, path.parent) if path.name == RECIPES_TABLE else path.name)]
    try:
        return [Results(path.name, path, logs={path: training_log.read(path)})]
    except UserError:
        raise UserError(
            f"{path} is neither a results.jsonl nor a log of fairseq-train with metrics of a training; name one of "
            "these, or the --out of a recipe."
        ) from None


def of_recipe(file: Path, name: str) -> Results:
    """The rows of a table, and the trainings beside it. Files beside a table of another name than results.jsonl may be
    of other runs."""
    try:
        rows = results_table.read_rows(file)
    except OSError as error:
        raise UserError(str(error)) from None
    if not rows:
        raise UserError(f"{file} has no rows yet; wait until its recipe has written the first, or leave it out.")
    written = written_on(file.stat().st_mtime)
    if file.name == RECIPES_TABLE:
        return Results(name, file.parent, rows, written, logs_in(file.parent))
    return Results(name, file, rows, written)


def short(folder: Path, start: Path) -> str:
    """The folder from the one that was named on: pages are for others, who have no such path."""
    return Path(os.path.relpath(folder.resolve(), start.resolve().parent)).as_posix()


def logs_in(folder: Path) -> dict[Path, training_log.TrainingLog]:
    """The logs of trainings below the folder; one that has no metrics yet is left out."""
    found = {}
    for file in sorted(folder.rglob("train.log")):
        with suppress(UserError):
            found[file.parent] = training_log.read(file)
    return found


FEW_COMMANDS = 5  # as many are shown, more are folded


def section(results: Results, heading: str) -> str:
    """In Markdown: means over seeds where there are some, every row, the commands, the date of the last entry, and
    pictures."""
    means = results_table.means(results.rows)
    warnings = map(literal, map(results_table.warning, results_table.differing(results.rows)))
    tables = [*cells(means), *warnings, *cells(results.rows)]
    return "\n\n".join([heading, *tables, *commands(results.rows), last_entry(results), *pictures(results)])


def cells(rows: dict[str, dict]) -> list[str]:
    """Rows of results_table, without their commands: those with the same columns in one table."""
    groups: dict[frozenset, list[dict[str, str]]] = {}
    for cell, row in rows.items():
        shown = {column: results_table.shown(value) for column, value in row.items() if column != "command"}
        groups.setdefault(frozenset(shown), []).append({"": cell} | shown)
    return [
        table(map(literal, group[0]), [[literal(row[column]) for column in group[0]] for row in group])
        for group in groups.values()
    ]


def commands(rows: dict[str, dict]) -> list[str]:
    blocks = [*map(code_block, dict.fromkeys(row["command"] for row in rows.values() if "command" in row))]
    if len(blocks) <= FEW_COMMANDS:
        return blocks
    summary = f"<summary>{len(blocks)} commands</summary>"
    return ["\n\n".join([f'<details markdown="1">\n{summary}', *blocks, "</details>"])]


def last_entry(results: Results) -> str:
    """The date of the last row, or of the last entry of a log. A log has no command."""
    if results.written:
        return f"Last row: {results.written}"
    last = max(training_log.log_of(run).stat().st_mtime for run in results.logs)
    return f"Last entry: {written_on(last)}. The first lines of a training's log have all its settings."


def written_on(seconds: float) -> str:
    return date.fromtimestamp(seconds).isoformat()


def pictures(results: Results) -> Iterator[str]:
    """The pictures that the recipe drew, and those of its trainings."""
    files = sorted(results.where.glob("*.png")) if results.rows and results.where.is_dir() else []
    for file in filter(Path.is_file, files):
        yield recipes_picture(file, results.name)
    runs = [run for run, log in results.logs.items() if log.series("valid", "loss")[0]]
    if len(runs) < len(results.logs):
        yield f"{len(results.logs) - len(runs)} of {len(results.logs)} trainings have no validation yet."
    for first in range(0, len(runs), plot.FEW):
        some = [f"{shown(run, results).replace('=', ' ')}={run}" for run in runs[first : first + plot.FEW]]
        which = f"{first + 1} to {first + len(some)} of " if len(runs) > plot.FEW else ""
        trainings = f"{which}{len(runs)} training{'s' * (len(runs) > 1)}"
        caption = f"Validation loss over updates, of {trainings}; lower is better."
        yield drawn(plot.draw_curves, caption, runs=some, metric="loss")
    for run, log in results.logs.items():
        for pattern, draw, caption in LEARNED:
            if log.names(pattern):
                yield drawn(draw, f"{caption}, of {shown(run, results)}.", run=run)


def shown(run: Path, results: Results) -> str:
    """The name of a training in the place where it was found."""
    inside = os.path.relpath(run, results.where)
    return results.where.resolve().name if inside == "." else inside


def recipes_picture(file: Path, name: str) -> str:
    data = file.read_bytes()
    if not (data.startswith(PNG[0]) and data.endswith(PNG[1])):
        return f"{literal(file.name)} is damaged and left out; run the recipe's plot again."
    what = f"{file.stem.replace('_', ' ')}, of {name}"
    return figure(data, f"{what}. {read_description(file) or 'The table above has its numbers.'}", f"{what}.")


# names of the metrics that --log-learned writes into a log, what draws them, and a caption
LEARNED: list[tuple[str, Callable, str]] = [
    (plot.SPAN, plot.draw_spans, "Span of each head by layer, in tokens"),
    (plot.MEMORY, plot.draw_memory, "Weight of each layer in the feedback memory over updates"),
]


def drawn(draw: Callable, caption: str, **arguments) -> str:
    """A picture of `plot`, or why there is none."""
    try:
        picture = draw(argparse.Namespace(**arguments))
    except UserError as error:
        return literal(error)
    data = io.BytesIO()
    picture.savefig(data, format="png", dpi=110)
    return figure(data.getvalue(), f"{caption} {describe(picture)}", caption)
