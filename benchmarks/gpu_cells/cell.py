"""Cells: one measurement each, of at most nine minutes."""

import datetime
import platform
from dataclasses import dataclass
from pathlib import Path

import torch
from cells import Row

MINUTE = 60
ONLY_A_GPU = {"note": "only a GPU can tell"}  # the row of a cell that has nothing to measure on a CPU


@dataclass(frozen=True)
class Setting:
    """The circumstances of cells.

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
    """A measurement. The docstring of a class describes its row.

    Attributes:
        limit: seconds after which it is stopped
    """

    limit = 9 * MINUTE

    def measure(self, setting: Setting) -> Row:
        """Do it. What is wrong ends in an error: a cell without one is done."""
        raise NotImplementedError


class Machine(Cell):
    """The device and the versions, for every row. Without the device there is nothing to measure."""

    limit = 120

    def measure(self, setting: Setting) -> Row:
        torch.ones(1, device=setting.device)
        return {
            "device": torch.cuda.get_device_name() if setting.gpu else f"CPU ({platform.machine()})",
            "date": str(datetime.date.today()),
            "torch": torch.__version__,
            "python": platform.python_version(),
        }
