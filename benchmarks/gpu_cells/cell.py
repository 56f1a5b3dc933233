"""What a cell is: one measurement of at most nine minutes."""

from dataclasses import dataclass
from pathlib import Path

MINUTE = 60
ONLY_A_GPU = {"note": "only a GPU can tell"}  # the row of a cell that has nothing to measure on a CPU

Row = dict[str, str | float]


@dataclass(frozen=True)
class Setting:
    """Where and how cells run.

    Attributes:
        device: cpu or cuda
        smoke: the smallest sizes, which show that everything runs and measure nothing
        folder: for files that cells leave, for a reader or for other cells
        engines: that are timed and profiled
    """

    device: str
    smoke: bool
    folder: Path
    engines: tuple[str, ...] = ()

    @property
    def gpu(self) -> bool:
        return self.device == "cuda"


class Cell:
    """A measurement. The text of a class says what its cells show.

    Attributes:
        limit: seconds after which it is stopped
    """

    limit = 9 * MINUTE

    def measure(self, setting: Setting) -> Row:
        """Do it. What is wrong ends in an error: a cell without one is done."""
        raise NotImplementedError
