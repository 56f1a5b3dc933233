"""Pictures by matplotlib: shared by the tools that draw."""

from io import BytesIO
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.tools.lib.command import Command
from fairseq_plugins.tools.lib.out_file import PICTURE

BESIDE = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}  # a legend beside the axes, where it covers no line


def add_out(parser: Command) -> None:
    parser.option("--out", PICTURE, None, "FILE", ".png, .pdf or .svg", required=True)


def named(argument: str, form: str, example: str) -> tuple[str, str]:
    """The two parts of an argument NAME=PATH.

    Raises:
        UserError: it has another form; the message shows the form and the example
    """
    name, _, path = argument.partition("=")
    if not path:
        raise UserError(f"{argument} does not have the form {form}; write it as {example}.")
    return name, path


def by_name(arguments: list[str], form: str = "NAME=RUN", example: str = "feedback=runs/a") -> dict[str, list[str]]:
    """The paths of NAME=PATH... by name."""
    found: dict[str, list[str]] = {}
    for name, path in (named(argument, form, example) for argument in arguments):
        found.setdefault(name, []).append(path)
    return found


def once_named(arguments: list[str], form: str, example: str) -> dict[str, Path]:
    """The path of each NAME=PATH. Raises UserError if a name is given twice."""
    found = by_name(arguments, form, example)
    for name, paths in found.items():
        if len(paths) > 1:
            raise UserError(f"there is another {name}={paths[1]}; give each {form} a name of its own.")
    return {name: Path(path) for name, (path,) in found.items()}


def finish(axes, x: str, y: str, **legend) -> None:
    """Name the axes of lines, and add a grid and a legend."""
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    axes.legend(**legend)


def save(figure, out: Path) -> None:
    """Write a picture. A PNG holds a description, too, for readers who do not see it."""
    words = {"Description": describe(figure)} if out.suffix.lower() == ".png" else {}
    drawn = BytesIO()  # matplotlib hides why a file cannot be written
    figure.savefig(drawn, format=out.suffix[1:], dpi=150, metadata=words)
    write_whole(out, lambda path: path.write_bytes(drawn.getvalue()))


def describe(figure) -> str:
    """The titles and axes of a picture, where each curve of its legends begins and ends, and the lengths of named
    bars."""
    return " ".join(filter(None, map(_describe_axes, figure.axes)))


def _describe_axes(axes) -> str:
    titles = [axes.get_title(loc=place) for place in ("left", "center")]
    names = " over ".join(filter(None, (axes.get_ylabel(), axes.get_xlabel())))
    curves = []
    for line, name in zip(*axes.get_legend_handles_labels()):
        line = line[0] if isinstance(line, tuple) else line  # a line with bars for its errors
        if hasattr(line, "get_ydata") and len(line.get_ydata()):
            values = line.get_ydata()
            curves.append(f"{_plain(name)} from {values[0]:.4g} to {values[-1]:.4g}")
    rows = [_plain(label.get_text()) for label in axes.get_yticklabels()]
    bars = [
        f"{each.get_label()} {rows[round(bar.get_y() + bar.get_height() / 2)]} {bar.get_width():.4g}"
        for each in axes.containers
        if getattr(each, "orientation", "") == "horizontal"
        for bar in each
    ]
    return " ".join(f"{part}." for part in (*titles, names, "; ".join(curves), ", ".join(bars)) if part)


def _plain(name: str) -> str:
    """The name that was made a `legend_name`."""
    return name.replace(r"\$", "$").strip()


def read_description(file: Path) -> str:
    """The description in a PNG of ``save``; "" of others, and without Pillow, which matplotlib needs."""
    try:
        from PIL import Image
    except ImportError:
        return ""
    try:
        with Image.open(file) as picture:
            return picture.info.get("Description", "")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):  # SyntaxError: of a damaged part
        return ""


def legend_name(name: str) -> str:
    """A name for a legend. matplotlib would read a formula between two $, and leave out a name that begins with _."""
    readable = name.encode(errors="replace").decode().replace("$", r"\$")
    return f" {readable}" if readable.startswith("_") else readable


def new_figure(rows=1, columns=1, width=8.0, height=4.5, **options):
    """matplotlib's figure and its axes, [rows, columns]. It needs no screen.

    Raises:
        UserError: there is no matplotlib
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("pictures need matplotlib: pip install matplotlib.") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def shades(number: int) -> list:
    """Colours from dark to light, for items in an order."""
    from matplotlib import colormaps

    return [colormaps["viridis"](place / max(number - 1, 1) * 0.9) for place in range(number)]
