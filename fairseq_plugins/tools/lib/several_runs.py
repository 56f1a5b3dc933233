"""Curves of several runs of one name, such as seeds: their mean, and the band from the lowest to the highest."""

from pathlib import Path
from statistics import fmean

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib import training_log
from fairseq_plugins.tools.lib.command import each_once

Curve = tuple[list[float], list[float]]  # places, such as updates, and the value at each
Common = tuple[list[float], list[list[float]]]  # places, and at each the values of all curves


def logs_of(name: str, runs: list[str]) -> list[Path]:
    """The log of each run, which may be named by its folder."""
    return each_once(name, [training_log.log_of(Path(run)) for run in runs])


def common_places(curves: list[Curve]) -> Common:
    """The places of the first curve where all curves have been, and at each the values of all, which lie between two
    points of a curve on the line from one to the other. There are none where a curve has none."""
    import numpy

    if not all(places for places, _ in curves):
        return [], []
    start, end = max(places[0] for places, _ in curves), min(places[-1] for places, _ in curves)
    common = [place for place in curves[0][0] if start <= place <= end]
    return common, [[float(numpy.interp(place, *curve)) for curve in curves] for place in common]


def check_common(name: str, what: str, common: Common) -> None:
    """
    Raises:
        UserError: the curves have no place in common
    """
    if not common[0]:
        raise UserError(f"the runs of {name} have no {what} in common; train all of them for as many updates.")


def draw_mean(axes, common: Common, **look) -> None:
    places, values = common
    axes.plot(places, [*map(fmean, values)], **look)


def draw_band(axes, common: Common, color: str) -> None:
    places, values = common
    axes.fill_between(places, [*map(min, values)], [*map(max, values)], color=color, alpha=0.2, linewidth=0)
