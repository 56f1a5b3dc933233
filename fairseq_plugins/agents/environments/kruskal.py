"""Mazes by Kruskal's algorithm, without dead ends (Fan et al., 2020, section 7.2).

A maze is a square of free cells and walls, with an odd number of cells to a side. Rooms lie on even rows and
columns. Two rooms that are next to each other are two cells apart: the cell between them is a passage or a wall.
"""

from itertools import product

import numpy as np


def maze(size: int, draw: np.random.Generator) -> np.ndarray:
    """Free cells [size, size] of a random maze: a spanning tree of its rooms, with one wall more taken away at each
    dead end."""
    free = spanning_tree(size, draw)
    remove_dead_ends(free, draw)
    return free


def spanning_tree(size: int, draw: np.random.Generator) -> np.ndarray:
    """Kruskal's algorithm: go through the cells between rooms in random order, and open each one that joins two parts
    of the maze that are not yet joined."""
    free = np.zeros((size, size), dtype=bool)
    free[::2, ::2] = True
    part = {room: room for room in product(range(0, size, 2), repeat=2)}

    def root(room):
        while part[room] != room:
            part[room] = part[part[room]]
            room = part[room]
        return room

    between = [(row, column) for row, column in product(range(size), repeat=2) if (row + column) % 2]
    for number in draw.permutation(len(between)):
        row, column = between[number]
        down = row % 2
        one, other = root((row - down, column - (1 - down))), root((row + down, column + (1 - down)))
        if one != other:
            part[one] = other
            free[row, column] = True
    return free


def remove_dead_ends(free: np.ndarray, draw: np.random.Generator) -> None:
    """Open one of the walls around each cell with one free neighbour, chosen at random. Changes ``free``."""
    size = len(free)
    for row, column in np.argwhere(free).tolist():
        around = [(row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)]
        around = [(r, c) for r, c in around if 0 <= r < size and 0 <= c < size]
        walls = [cell for cell in around if not free[cell]]
        if len(around) - len(walls) == 1:
            free[walls[draw.integers(len(walls))]] = True
