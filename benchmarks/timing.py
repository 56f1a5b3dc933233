"""What the benchmarks share: two jobs timed in turn, the memory that a job takes, and how tables are told.

A job is called without arguments, does its work and returns how many tokens that was.
"""

import ctypes
import fcntl
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

Job = Callable[[], int]


class Compared(NamedTuple):
    """Median tokens per second of both; median, smallest and largest ratio of the pairs. Above 1, ours is faster."""

    baseline: float
    ours: float
    ratio: float
    low: float
    high: float


def compare(baseline: Job, ours: Job, pairs: int) -> Compared:
    """Run both in turn (A B A B ...) after a warm-up, so that a drift of the machine's speed hits both."""
    baseline(), ours()
    speeds = [(tokens_per_second(baseline), tokens_per_second(ours)) for _ in range(pairs)]
    ratios = [second / first for first, second in speeds]
    medians = (statistics.median(column) for column in zip(*speeds))
    return Compared(*medians, statistics.median(ratios), min(ratios), max(ratios))


def tokens_per_second(job: Job) -> float:
    synchronise()
    start = time.perf_counter()
    tokens = job()
    synchronise()
    return tokens / (time.perf_counter() - start)


def synchronise() -> None:
    """Wait for the GPU, if this process uses one."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def added_memory(job: Job) -> float:
    """MiB that the job adds at its peak to this process, or to the GPU."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
        before, (free, _) = torch.cuda.memory_reserved(), torch.cuda.mem_get_info()
        torch.cuda.reset_peak_memory_stats()
        job(), job()  # the second run captures graphs, whose memory is reserved for them
        reserved = torch.cuda.max_memory_reserved() - before
        taken = free - torch.cuda.mem_get_info()[0]  # also what the driver keeps of graphs, which torch does not count
        return max(reserved, taken) / 2**20
    # what is free already is given back: the job would find it there and seem to need less
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak so far
    before = resident("VmRSS")
    job()
    return resident("VmHWM") - before


def resident(field: str) -> float:
    """MiB of this process's memory: now (VmRSS), or at the peak (VmHWM)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) / 2**10


def in_own_process(*arguments):
    """What this script prints in its last line, as JSON, when called again with more arguments."""
    command = [sys.executable, *sys.argv, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


SPEED = f"{os.environ.get('TMPDIR') or '/tmp'}/fairseq_plugins-{os.getuid()}"  # as in evidence.sh


@contextmanager
def alone() -> Iterator[None]:
    """Let no cell of evidence.sh begin, and wait until none trains and nothing else is measured here.

    Raises:
        SystemExit: the folder of the locks is not there
    """
    with ExitStack() as held:
        for name in ("next", "training"):
            try:
                file = held.enter_context(open(f"{SPEED}.{name}", "a"))
            except OSError as error:
                sys.exit(f"error: TMPDIR: {error}; name a folder where you may write.")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("waiting: a cell of evidence.sh trains here, or speed is measured", file=sys.stderr, flush=True)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


BOUNDS = "What the machine allows at most: [bounds](bounds.md)."


def report(parts: Iterable[list[str]], output: Path | None) -> None:
    """Print the lines of each part as soon as it is measured, beside no training of evidence.sh; write all of them to a
    file at the end."""
    lines = []
    with alone():
        for part in parts:
            print("\n".join(part), flush=True)
            lines += part
    if output:
        output.write_text("\n".join([*lines, *([""] if lines[-1] else []), BOUNDS]) + "\n")
