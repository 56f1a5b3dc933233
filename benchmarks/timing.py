"""The common part of the benchmarks of speed: options, two jobs timed in turn, the memory that a job takes, the report.

A job is called without arguments, does its work and returns how many tokens that was.
"""

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import page
import torch
from cells import alone

Job = Callable[[], int]
DTYPES = ["float32", "bfloat16", "float16"]


def options(description: str, sizes: dict[str, int], pairs: int = 5, dtypes: bool = True) -> argparse.ArgumentParser:
    """A parser of the sizes, with their defaults, and of the options that all benchmarks of speed have."""
    parser = options_of_memory(description, sizes)
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.set_defaults(dtype=DTYPES[0])
    if dtypes:
        parser.add_argument("--dtype", default=DTYPES[0], choices=DTYPES, help="(%(default)s)")
    parser.add_argument("--pairs", type=int, default=pairs, help="measured pairs of runs (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the CPU (%(default)s)")
    return parser


def options_of_memory(description: str, sizes: dict[str, int]) -> argparse.ArgumentParser:
    """Those of a benchmark of memory alone, on a CPU."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value, help="(%(default)s)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the tables there too (Markdown)")
    parser.add_argument("--apart", help=argparse.SUPPRESS)
    parser.set_defaults(threads=1)
    return parser


Part = Callable[[Namespace], str]


def main(args: Namespace, parts: Iterable[Part], apart: Callable | None = None) -> None:
    """Report the parts of a page. In a process of `in_own_process`, print apart(args, *arguments) and nothing else."""
    torch.set_num_threads(args.threads)
    if args.apart:
        print(json.dumps(apart(args, *json.loads(args.apart))))
    else:
        report((part(args) for part in parts), args.output)


def head(args: Namespace, title: str, question: str, setup: str, variables: str = "") -> str:
    """A page's head (page.head) with the machine in its set-up."""
    device = torch.cuda.get_device_name() if args.device == "cuda" else f"CPU, {args.threads} threads"
    machine = f"{device} ({platform.machine()}), {args.dtype}, {page.python()}, torch {torch.__version__}."
    return page.head(title, question, f"{machine} {setup}", variables=variables)


class Compared(NamedTuple):
    """Median tokens per second of both; median, smallest and largest ratio of the pairs. Above 1, ours is faster."""

    baseline: float
    ours: float
    ratio: float
    low: float
    high: float

    def told(self, digits: int = 2) -> str:
        """The median ratio, with the smallest and the largest."""
        return f"**{self.ratio:.{digits}f}** ({self.low:.{digits}f} to {self.high:.{digits}f})"

    def speeds(self) -> list[str]:
        return [f"{self.baseline:.0f}", f"{self.ours:.0f}"]


def compare(baseline: Job, ours: Job, pairs: int) -> Compared:
    """Run both in turn (A B A B ...) after a warm-up, so that a drift of the machine's speed hits both."""
    baseline(), ours()
    speeds = [(tokens_per_second(baseline), tokens_per_second(ours)) for _ in range(pairs)]
    ratios = [second / first for first, second in speeds]
    medians = (statistics.median(column) for column in zip(*speeds))
    return Compared(*medians, statistics.median(ratios), min(ratios), max(ratios))


def tokens_per_second(job: Job) -> float:
    tokens, seconds = timed(job)
    return tokens / seconds


def timed(function: Callable, *arguments):
    """The function's result, and the seconds until it and its work on the GPU were done."""
    synchronise()
    start = time.perf_counter()
    result = function(*arguments)
    synchronise()
    return result, time.perf_counter() - start


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
        taken = free - torch.cuda.mem_get_info()[0]  # also the driver's part of graphs, which torch does not count
        return max(reserved, taken) / 2**20
    # free memory is given back: the job would find it there and seem to need less
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak so far
    before = resident("VmRSS")
    job()
    return resident("VmHWM") - before


def resident(field: str) -> float:
    """MiB of this process's memory: now (VmRSS), or at the peak (VmHWM)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) / 2**10


def update(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """Backward pass and step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def in_own_process(*arguments):
    """The answer of `apart` (see `main`) in a process of its own."""
    command = [sys.executable, *sys.argv, "--apart", json.dumps(arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


BOUNDS = "[Bounds](bounds.md) has the limits of the machine."


def report(parts: Iterable[str], output: Path | None) -> None:
    """Print each part as soon as it is measured, beside no training of evidence.sh; write all to a file at the end."""
    told = []
    with alone():
        for part in parts:
            print(part, end="\n\n", flush=True)
            told.append(part)
    if output:
        output.write_text("\n\n".join([*told, BOUNDS]) + "\n")
