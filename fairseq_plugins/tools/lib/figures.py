"""Figures of matplotlib: shared by the tools that draw."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.tools.lib.out_file import PICTURE


def add_out(parser) -> None:
    parser.add_argument("--out", type=PICTURE, required=True, metavar="FILE", help=".png, .pdf or .svg")


def save(figure, out: Path) -> None:
    """Write a figure; a PNG says in words, too, what its curves show, for readers who do not see it."""
    words = {"Description": described(figure)} if out.suffix.lower() == ".png" else {}
    drawn = BytesIO()  # matplotlib hides why a file cannot be written
    figure.savefig(drawn, format=out.suffix[1:], dpi=150, metadata=words)
    write_whole(out, lambda path: path.write_bytes(drawn.getvalue()))


def described(figure) -> str:
    """The titles and axes of a figure, where each curve of its legends begins and ends, and how long named bars are."""
    return " ".join(filter(None, map(_of_axes, figure.axes)))


def _of_axes(axes) -> str:
    titles = [axes.get_title(loc=place) for place in ("left", "center")]
    names = " over ".join(filter(None, (axes.get_ylabel(), axes.get_xlabel())))
    curves = [f"{name.strip()} {course(line.get_ydata())}" for name, line in _curves(axes)]
    return " ".join(f"{part}." for part in (*titles, names, "; ".join(curves), ", ".join(_bars(axes))) if part)


def _bars(axes) -> Iterator[str]:
    """The name of each horizontal bar on its axis, and its length."""
    names = [name.get_text().strip().replace(r"\$", "$") for name in axes.get_yticklabels()]
    for bars in axes.containers:
        for bar in bars if getattr(bars, "orientation", "") == "horizontal" else ():
            yield f"{bars.get_label()} {names[round(bar.get_y() + bar.get_height() / 2)]} {bar.get_width():.4g}"


def _curves(axes) -> Iterator:
    """The names and lines of a legend; of a line with bars for its errors the line alone."""
    for line, name in zip(*axes.get_legend_handles_labels()):
        line = line[0] if isinstance(line, tuple) else line
        if hasattr(line, "get_ydata") and len(line.get_ydata()):
            yield name.replace(r"\$", "$"), line


def course(values) -> str:
    """A series in words."""
    return f"from {values[0]:.4g} to {values[-1]:.4g}"


def description(file: Path) -> str:
    """What a PNG that ``save`` wrote says in words; "" of others, and without Pillow, which matplotlib needs."""
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
    """A figure and its axes. It needs no screen."""
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
