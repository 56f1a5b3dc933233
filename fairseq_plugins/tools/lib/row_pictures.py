"""Pictures of the rows of a recipe's table, as in Figures 4, 5 and 7 to 9 of the Feedback paper."""

import re
from math import isfinite, isnan, nan
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import results_table
from fairseq_plugins.tools.lib.command import Command
from fairseq_plugins.tools.lib.pictures import legend_name, new_figure

NUMBERED = re.compile(r"(.+)-(\d+)")  # the name of a row that is a point of a line, as feedback-2
Values = dict[str, tuple[float, float]]  # by row our number and the paper's; nan where there is none


def add_rows(parser: Command) -> None:
    parser.option("table", Path, None, "ROWS", "a results.jsonl, or the folder that it is in")
    words = "columns, a panel each, and the columns that have the paper's numbers of them"
    parser.add_argument("--metric", nargs="+", required=True, metavar="COLUMN[=PAPER]", help=words)
    parser.option("--over", str, "layers", "TEXT", "the name of the numbers")


def draw_rows(args):
    table = read(args.table)
    panels = {metric: values(table, metric, args.table) for metric in args.metric}
    names = [name for rows in panels.values() for name in rows]
    lines = all(map(NUMBERED.fullmatch, names))
    models = list(dict.fromkeys(NUMBERED.sub(r"\1", name) for name in names))  # one colour each, in all panels
    height = 4.5 if lines else 1.5 + 0.4 * max(map(len, panels.values()))
    figure, (grid,) = new_figure(columns=len(panels), width=max(6.5, 4.5 * len(panels)), height=height)
    for axes, (metric, rows) in zip(grid, panels.items()):
        title = metric.partition("=")[0]
        draw_lines(axes, rows, title, args.over, models) if lines else draw_bars(axes, rows, title)
    legend = {name: handle for axes in grid for handle, name in zip(*axes.get_legend_handles_labels())}
    if legend.keys() != {"ours"}:
        figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=2 * len(grid))
    return figure


def read(path: Path) -> results_table.Rows:
    """
    Raises:
        UserError: there is no such table, or it is empty or damaged
    """
    file = path / "results.jsonl" if path.is_dir() else path
    if not file.exists():
        raise UserError(f"{file} does not exist; {results_table.NAME_A_TABLE}, or its --out.")
    rows = results_table.read_rows(file)
    if not rows:
        raise UserError(f"{file} has no rows; {results_table.NAME_A_TABLE}.")
    return rows


def values(table: results_table.Rows, metric: str, path: Path) -> Values:
    """The rows that have a number in the column of COLUMN[=PAPER].

    Raises:
        UserError: there is no such row
    """
    ours, _, papers = metric.partition("=")
    columns = list(dict.fromkeys(column for row in table.values() for column in row))
    if papers and papers not in columns:
        raise UserError(f"{path} has no column {papers!r} for the paper's numbers; there are {', '.join(columns)}.")
    found = {name: (number(row.get(ours)), number(row.get(papers))) for name, row in table.items()}
    found = {name: pair for name, pair in found.items() if not isnan(pair[0])}
    if not found:
        raise UserError(f"{path} has no number in a column {ours!r}; there are the columns {', '.join(columns)}.")
    return found


def number(value) -> float:
    """nan for a text, and for a number that is not finite, as of a training that diverged."""
    return value if isinstance(value, int | float) and isfinite(value) else nan


def draw_lines(axes, rows: Values, metric: str, over: str, models: list[str]) -> None:
    """A line for each part of the names before the last hyphen, over the number behind it; the paper's are diamonds."""
    series: dict[str, dict[int, tuple[float, float]]] = {}
    for name, pair in rows.items():
        model, place = name.rsplit("-", 1)
        series.setdefault(model, {})[int(place)] = pair
    for model, points in series.items():
        places, colour = sorted(points), f"C{models.index(model)}"
        ours, papers = zip(*(points[place] for place in places))
        axes.plot(places, ours, color=colour, marker="o", label=legend_name(model))
        there = [(place, value) for place, value in zip(places, papers) if not isnan(value)]
        if there:
            look = {"color": colour, "markerfacecolor": "white", "markersize": 8}
            axes.plot(*zip(*there), "D", label=legend_name(f"{model}, the paper's"), **look)
    axes.set_xticks(sorted({place for points in series.values() for place in points}))
    axes.set(xlabel=over, ylabel=metric)
    axes.grid(alpha=0.3)


def draw_bars(axes, rows: Values, metric: str) -> None:
    """A bar for each row, from above in the order of the table, and below it one for the paper's number."""
    ours = [pair[0] for pair in rows.values()]
    papers = {place: pair[1] for place, pair in enumerate(rows.values()) if not isnan(pair[1])}
    places = [place - 0.2 * bool(papers) for place in range(len(rows))]
    axes.barh(places, ours, height=0.4 if papers else 0.65, label="ours")
    if papers:
        look = {"height": 0.3, "color": "white", "edgecolor": "C0", "label": "the paper's"}
        axes.barh([place + 0.2 for place in papers], papers.values(), **look)
    for bars in axes.containers:
        axes.bar_label(bars, fmt="%#.4g", padding=4, fontsize=8)
    axes.margins(x=0.18)  # room for the number behind the longest bar
    axes.set_yticks(range(len(rows)), [legend_name(name) for name in rows])
    axes.invert_yaxis()
    axes.set(xlabel=metric)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
