"""Figures of matplotlib: shared by the tools that draw."""

from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.tools.lib.out_file import PICTURE


def add_out(parser) -> None:
    parser.add_argument("--out", type=PICTURE, required=True, metavar="FILE", help=".png, .pdf or .svg")


def save(figure, out: Path) -> None:
    write_whole(out, lambda path: figure.savefig(path, format=out.suffix[1:], dpi=150))


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
