"""The cells of benchmarks/gpu.py, in the order in which they run: what is wrong first, what takes long last."""

from gpu_cells import language, translation
from gpu_cells.cell import Cell

CELLS: dict[str, Cell] = {
    **language.CELLS,
    **translation.CELLS,
}
