"""Where the numbers come from."""

import datetime
import platform

import torch

from gpu_cells.cell import Cell, Row, Setting


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
