"""Cells one after the other, each in a process of its own; a row for each."""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

from fairseq_plugins.tools.results_table import add_rows, read_rows
from gpu_cells.cell import Cell, Row, Setting

DONE = "done"
AT_THE_END = 20  # seconds that a process may take to end, when its row has come


def run_cells(cells: dict[str, Cell], setting: Setting, rows: Path, more: Row, seconds: float = float("inf")) -> bool:
    """Measure what has no row yet, and write each row when it is there.

    Args:
        cells: by their names, in their order
        rows: file of JSON lines
        more: columns that every row gets
        seconds: no cell begins whose limit ends later than this

    Returns:
        Whether all have their rows, and none has failed.
    """
    end = time.monotonic() + seconds
    for name, cell in cells.items():
        if is_done(rows, name):
            say(name, "there already")
        elif time.monotonic() + cell.limit > end:
            say(name, f"left for another call: its limit of {cell.limit} s is longer than the time that is left")
        else:
            say(name, f"begun, at most {cell.limit} s")
            row = timed(cell, setting, setting.folder / f"{name}.txt")
            add_rows(rows, {name: row | more})
            say(name, ", ".join(f"{column} {value}" for column, value in row.items()))
    return all(is_done(rows, name) for name in cells)


def is_done(rows: Path, name: str) -> bool:
    return read_rows(rows).get(name, {}).get("state") == DONE


def say(name: str, words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {name}: {words}", flush=True)


def timed(cell: Cell, setting: Setting, log: Path) -> Row:
    begun = time.monotonic()
    row = apart(cell, setting, log)
    return {"state": DONE} | row | {"seconds": round(time.monotonic() - begun, 1)}


def apart(cell: Cell, setting: Setting, log: Path) -> Row:
    """The row of a cell, measured in another process. As a rule it is a fork of this one, whose imports are there
    already; so this one never touches the GPU. A cell that fails gets a row that says how."""
    log.parent.mkdir(parents=True, exist_ok=True)
    receiver, sender = Pipe(duplex=False)
    process = Process(target=work, args=(cell, setting, log, sender))
    sys.stdout.flush()
    process.start()
    sender.close()
    try:
        if not receiver.poll(cell.limit):
            return failed(f"stopped after its limit of {cell.limit} s")
        row = json.loads(receiver.recv())
        process.join(AT_THE_END)
        return row
    except EOFError:
        process.join(AT_THE_END)
        return failed(f"its process ended with status {process.exitcode}; see {log.name}")
    finally:
        stop(process)


def failed(why: str) -> Row:
    return {"state": f"failed: {why}"}


def stop(process: Process) -> None:
    """End the process, and those that it has started."""
    if process.is_alive():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # so young that it is still in this process's group
            process.kill()
    process.join()


def work(cell: Cell, setting: Setting, log: Path, sender: Connection) -> None:
    """In the process of the cell: measure, and send the row. All output goes to the log."""
    os.setsid()
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        row = cell.measure(setting)
    except BaseException as error:  # fairseq's commands raise SystemExit, too
        traceback.print_exc()
        row = failed(first_line(error))
    sender.send(json.dumps(row))


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def show(cells: dict[str, Cell], rows: Path) -> Iterable[str]:
    """A line for each cell: its limit, and whether it is done."""
    known = read_rows(rows)
    for name, cell in cells.items():
        yield f"{name:45} {cell.limit:4} s  {known.get(name, {}).get('state', '')}".rstrip()
