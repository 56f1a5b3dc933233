"""Cells one after the other, each in a process of its own; a row for each."""

import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import cells

from fairseq_plugins.tools.results_table import add_rows, read_rows
from gpu_cells.cell import Cell, Row, Setting

DONE = "done"


def run_cells(chosen: dict[str, Cell], setting: Setting, rows: Path, more: Row, seconds: float = float("inf")) -> bool:
    """Measure what has no row yet, and write each row when it is there.

    Args:
        chosen: by their names, in their order
        rows: file of JSON lines
        more: columns that every row gets
        seconds: no cell begins whose limit ends later than this

    Returns:
        Whether all have their rows, and none has failed.
    """
    end = time.monotonic() + seconds
    for name in chosen:
        if is_done(rows, name):
            say(name, "there already")
    for name in cells.turns(chosen, setting.folder / "locks", partial(is_done, rows), print):
        limit = chosen[name].limit
        if time.monotonic() + limit > end:
            say(name, f"left for another call: its limit of {limit} s is longer than the time that is left")
        else:
            say(name, f"begun, at most {limit} s")
            row = measured(chosen[name], setting, setting.folder / f"{name}.txt")
            add_rows(rows, {name: row | more})
            say(name, ", ".join(f"{column} {value}" for column, value in row.items()))
    return all(is_done(rows, name) for name in chosen)


def is_done(rows: Path, name: str) -> bool:
    return read_rows(rows).get(name, {}).get("state") == DONE


def say(name: str, words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {name}: {words}", flush=True)


def measured(cell: Cell, setting: Setting, log: Path) -> Row:
    """The row of a cell, measured in another process, so this one never touches the GPU. A cell that fails gets a row
    that says how."""
    begun = time.monotonic()
    try:
        row = {"state": DONE} | cells.apart(partial(cell.measure, setting), cell.limit, log)
    except (TimeoutError, RuntimeError) as error:
        row = {"state": f"failed: {error}"}
    return row | {"seconds": round(time.monotonic() - begun, 1)}


def show(chosen: dict[str, Cell], rows: Path) -> Iterable[str]:
    """A line for each cell: its limit, and whether it is done."""
    known = read_rows(rows)
    for name, cell in chosen.items():
        yield f"{name:45} {cell.limit:4} s  {known.get(name, {}).get('state', '')}".rstrip()
