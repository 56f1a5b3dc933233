"""The results of one's own runs in Markdown: the tables of recipes, and the logs of trainings."""

import argparse
import io
import os
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
from fairseq_plugins.tools.lib.pictures import course, read_description

RECIPES_TABLE = "results.jsonl"
PNG = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"  # how the file begins and ends


@dataclass
class Results:
    """What is found in one place.

    Attributes:
        name: of the place, as the page shows it
        where: the folder, or the log
        rows: of its results.jsonl, by cell
        written: when the last of them was
        logs: of the trainings there, by the folder of each
    """

    name: str
    where: Path
    rows: dict[str, dict] = field(default_factory=dict)
    written: str = ""
    logs: dict[Path, training_log.TrainingLog] = field(default_factory=dict)


def find_all(paths: list[Path]) -> list[Results]:
    """What is found in each of the paths, once. Where names are alike, as many folders stand in front as tell them
    apart.

    Raises:
        UserError: there is nothing, or a file is damaged
    """
    found: dict[Path, Results] = {}
    trainings: set[Path] = set()
    for results in chain.from_iterable(map(find, paths)):
        logs = {training_folder(run): run for run in results.logs}
        results.logs = {run: results.logs[run] for folder, run in logs.items() if folder not in trainings}
        trainings.update(logs)
        if results.rows or results.logs:
            found.setdefault(results.where.resolve(), results)
    alike: dict[str, list[Path]] = {}
    for where, results in found.items():
        alike.setdefault(results.name, []).append(where)
    for places in alike.values():
        folders = 1
        while len({where.parts[-folders:] for where in places}) < len(places):
            folders += 1
        for where in places if len(places) > 1 else []:
            found[where].name = "/".join(where.parts[-folders:])
    return [*found.values()]


def training_folder(run: Path) -> Path:
    """The folder of a training that is named by it, or by its train.log."""
    return (run.parent if run.name == "train.log" else run).resolve()


def find(path: Path) -> list[Results]:
    """One for each results.jsonl below a folder, with the trainings beside it, and one for all other trainings there;
    or that of a file, a results.jsonl or a log.

    Raises:
        UserError: there is nothing, or a file is damaged
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; name a folder of runs, a results.jsonl or a train.log.")
    if path.is_file() and path.suffix != ".jsonl":
        try:
            return [Results(path.name, path, logs={path: training_log.read(path)})]
        except UserError:
            raise UserError(
                f"{path} is neither a results.jsonl nor a log of fairseq-train with figures of a training; name one of "
                "these, or the --out of a recipe."
            ) from None
    files = sorted(path.rglob(RECIPES_TABLE)) if path.is_dir() else [path]
    found = [of_recipe(file, path) for file in files]
    logs = logs_in(path) if path.is_dir() else {}
    for run in [run for results in found for run in results.logs]:
        logs.pop(run, None)
    if logs:
        found.append(Results(short(path, path), path, logs=logs))
    if not found:
        raise UserError(
            f"{path} has neither a results.jsonl nor a train.log with figures; name the --out of a recipe or the "
            "folder of a training, or wait until its first figures are there."
        )
    return found


def of_recipe(file: Path, start: Path) -> Results:
    try:
        rows = results_table.read_rows(file)
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from None
    if not rows:
        raise UserError(f"{file} has no rows yet; wait until its recipe has written the first, or leave it out.")
    written = written_on(file.stat().st_mtime)
    if file.name != RECIPES_TABLE:  # what lies beside it need not belong to it
        return Results(file.name, file, rows, written)
    name = short(file.parent, start if start.is_dir() else file.parent)
    return Results(name, file.parent, rows, written, logs_in(file.parent))


def short(folder: Path, start: Path) -> str:
    """The folder from the one that was named on: pages are for others, who have no such path."""
    return Path(os.path.relpath(folder.resolve(), start.resolve().parent)).as_posix()


def logs_in(folder: Path) -> dict[Path, training_log.TrainingLog]:
    """The logs of trainings below the folder; one that has no figures yet is left out."""
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
    """Those that the recipe drew, and those of its trainings."""
    files = sorted(results.where.glob("*.png")) if results.rows and results.where.is_dir() else []
    for file in filter(Path.is_file, files):
        yield recipes_picture(file, results.name)
    runs = [run for run, log in results.logs.items() if log.series("valid", "loss")[0]]
    if len(runs) < len(results.logs):
        yield f"{len(results.logs) - len(runs)} of {len(results.logs)} trainings have no validation yet."
    for first in range(0, len(runs), plot.FEW):
        some = {shown(run, results): run for run in runs[first : first + plot.FEW]}
        ends = [f"{name} {course(results.logs[run].series('valid', 'loss')[1])}" for name, run in some.items()]
        which = f"{first + 1} to {first + len(some)} of " if len(runs) > plot.FEW else ""
        caption = (
            f"Validation loss over updates, of {which}{len(runs)} training{'s' * (len(runs) > 1)}; lower is better."
        )
        drawn_runs = [f"{name.replace('=', ' ')}={run}" for name, run in some.items()]
        yield drawn(plot.draw_curves, caption, "; ".join(ends), runs=drawn_runs, metric="loss")
    for run, log in results.logs.items():
        for pattern, draw, what, one in LEARNED:
            if names := log.names(pattern):
                courses = [f"{one(name)} {course(log.series('train', name)[1])}" for name in names]
                yield drawn(draw, f"{what}, of {shown(run, results)}.", "; ".join(courses), run=run)


def shown(run: Path, results: Results) -> str:
    """The name of a training in the place where it was found."""
    inside = os.path.relpath(run, results.where)
    return results.where.resolve().name if inside == "." else inside


def recipes_picture(file: Path, name: str) -> str:
    data = file.read_bytes()
    if not (data.startswith(PNG[0]) and data.endswith(PNG[1])):
        return f"{literal(file.name)} is damaged and left out; run the recipe's plot again."
    what = f"{file.stem.replace('_', ' ')}, of {name}"
    return figure(data, f"{what}. {read_description(file) or 'The table above has its figures.'}", f"{what}.")


# what --log-learned writes into a log: names there, what draws them, what it is, the name of one
LEARNED: list[tuple[str, Callable, str, Callable[[str], str]]] = [
    (
        plot.SPAN,
        plot.draw_spans,
        "Span of each head by layer, in tokens",
        lambda name: "layer {} head {}".format(*name.split("_")[1:]),
    ),
    (
        plot.MEMORY,
        plot.draw_memory,
        "Weight of each layer in the feedback memory over updates",
        lambda name: "embedding" if name == "memory_0" else f"layer {name.split('_')[1]}",
    ),
]


def drawn(draw: Callable, caption: str, courses: str, **arguments) -> str:
    """A picture of `plot`, or why there is none."""
    data = io.BytesIO()
    try:
        draw(argparse.Namespace(**arguments)).savefig(data, format="png", dpi=110)
    except UserError as error:
        return literal(error)
    return figure(data.getvalue(), f"{caption} {courses}.", caption)
