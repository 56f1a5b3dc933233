"""Correctness, speed, memory, synchronisations and profile on a GPU, and random walk at the paper's size, cell by cell.

    python benchmarks/gpu.py --device cuda                          # every cell without a row, in their order
    python benchmarks/gpu.py --device cuda --minutes 9              # those whose limits end within so many minutes
    python benchmarks/gpu.py --device cuda --cells 'speed-*'        # only some
    python benchmarks/gpu.py --device cpu --smoke                   # all of them, small: shows that they run
    python benchmarks/gpu.py --list

A cell takes nine minutes at the most, in a process of its own, and writes its row, one line of JSON, when it is done.
One that fails or takes longer has a row that says so, and the next call tries it again. gpu.md says what cells show.
"""

import argparse
import multiprocessing
import os
import sys
from contextlib import nullcontext
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = (
    "1"  # is there a GPU? asked so that forks of this process can still use it
)
import cells
import paths  # noqa: F401  finds the suite
import timing
from gpu_cells import CELLS
from gpu_cells.cell import Cell, Machine, Setting
from gpu_cells.runner import run_cells, show

import fairseq_plugins  # noqa: F401  patches fairseq
from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.feedback.stack import ENGINES

RUNS = Path("runs/gpu")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="(%(default)s)")
    parser.add_argument("--smoke", action="store_true", help="the smallest sizes; the numbers mean nothing")
    parser.add_argument("--cells", nargs="+", default=["*"], metavar="NAME", help="with * for any part (all)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no cell whose limit ends later")
    parser.add_argument(
        "--engines", nargs="+", default=[*ENGINES], choices=[*ENGINES], help="that are timed and profiled (all)"
    )
    parser.add_argument(
        "--start", default="fork", choices=["fork", "spawn"], help="of processes: spawn is slower by all imports, for a"
        " GPU that cannot be used in a fork (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, help=f"folder of rows and logs ({RUNS}/DEVICE, or DEVICE-smoke)")
    parser.add_argument("--list", action="store_true", help="the cells, their limits, and which of them are done")
    args = parser.parse_args()
    folder = args.out or RUNS / (args.device + "-smoke" * args.smoke)
    setting = Setting(args.device, args.smoke, folder, tuple(args.engines))
    rows, todo = folder / "rows.jsonl", chosen(args.cells)
    if args.list:
        print(*show(todo, rows), sep="\n")
        return
    cells.end_with_cells()
    multiprocessing.set_start_method(args.start, force=True)
    machine = Machine()
    try:
        more = cells.apart(partial(machine.measure, setting), machine.limit, folder / "machine.txt")
    except (TimeoutError, RuntimeError) as error:
        told = f"--device {args.device} cannot be used (failed: {error})"
        raise UserError(f"{told}; choose another, or --start spawn.") from error
    with nullcontext() if args.smoke else timing.alone():
        sys.exit(not run_cells(todo, setting, rows, more, 60 * args.minutes))


def chosen(patterns: list[str]) -> dict[str, Cell]:
    """The cells whose names a pattern fits, in their order."""
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in CELLS):
            raise UserError(f"--cells {pattern} is the name of no cell; see --list.")
    return {name: cell for name, cell in CELLS.items() if any(fnmatch(name, pattern) for pattern in patterns)}


if __name__ == "__main__":
    main()
