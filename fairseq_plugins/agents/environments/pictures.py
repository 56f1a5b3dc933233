"""Worlds as pictures and text."""

import numpy as np

WALL_COLOUR, FREE, AGENT = (60, 60, 60), (240, 240, 240), (0, 0, 0)
COLOURS = np.array(  # told apart with any colour vision as far as eight can be (Okabe and Ito)
    [
        (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66),
        (0, 114, 178), (213, 94, 0), (204, 121, 167), (130, 80, 30),
    ]
)  # fmt: skip
LETTERS = "oszybvpt"  # orange, sky, green, yellow, blue, vermilion, purple, brown
SCALE = 16  # pixels to a cell's side

ROWS, COLUMNS = np.mgrid[:SCALE, :SCALE] / (SCALE - 1) * 2 - 1  # of a cell's pixels, from -1 to 1
AGENTS = {  # by the direction that it faces: a letter, and a disc, or a triangle that points there
    None: ("@", ROWS**2 + COLUMNS**2 < 0.4),
    0: ("^", np.abs(COLUMNS) < (ROWS + 0.8) / 2),
    1: (">", np.abs(ROWS) < (0.8 - COLUMNS) / 2),
    2: ("v", np.abs(COLUMNS) < (0.8 - ROWS) / 2),
    3: ("<", np.abs(ROWS) < (COLUMNS + 0.8) / 2),
}


def enlarge(colours: np.ndarray) -> np.ndarray:
    """Colours of cells [rows, columns, 3] -> a picture, SCALE pixels to a cell's side."""
    return colours.repeat(SCALE, 0).repeat(SCALE, 1).astype(np.uint8)
