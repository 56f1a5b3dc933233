"""The cells of benchmarks/gpu.py, in the order in which they run: correctness first, long ones last."""

from gpu_cells import (
    correctness,
    first_updates,
    language,
    other_models,
    profile,
    random_walk,
    synchronisations,
    training,
    translation,
)
from gpu_cells.cell import Cell

CELLS: dict[str, Cell] = {
    **correctness.CELLS,
    **first_updates.CELLS,
    **training.CELLS,
    **language.CELLS,
    **translation.CELLS,
    **other_models.CELLS,
    **synchronisations.CELLS,
    **profile.CELLS,
    **random_walk.CELLS,
}
