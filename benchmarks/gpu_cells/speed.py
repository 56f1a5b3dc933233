"""Speed and peak memory: one baseline, and what is held against it in the same run."""

import gc
from collections.abc import Callable

import timing
import torch

from gpu_cells import engines
from gpu_cells.cell import Row, Setting

OUT_OF_MEMORY = "out of memory"
DTYPE = "bfloat16"


def pairs(setting: Setting) -> int:
    return 1 if setting.smoke else 5


def against(setting: Setting, baseline: tuple[str, Callable[[], timing.Job]], others: dict) -> Row:
    """Build the baseline and, one after the other, what is held against it; run them in turn.

    Args:
        baseline: its name, and what builds the job
        others: the same, by name

    Returns:
        Of every job tokens a second, the ratio to the baseline's speed (median, smallest, largest), the MiB that its
        first runs add, and how many CUDA graphs it had. One that needs more memory than there is says so, and the
        others go on.
    """
    name, build = baseline
    first = build()
    first()  # kernels and libraries that are loaded now count against nobody
    memory = timing.added_memory(first)
    row: Row = {f"{name}, MiB": round(memory)}
    for other, build_other in others.items():
        try:
            row |= one(setting, name, first, memory, other, build_other)
        except torch.cuda.OutOfMemoryError:
            row[other] = OUT_OF_MEMORY
        gc.collect()
        if setting.gpu:
            torch.cuda.empty_cache()
    return row


def one(setting: Setting, name: str, baseline, memory: float, other: str, build) -> Row:
    job = build()
    added = timing.added_memory(job)
    both = timing.compare(baseline, job, pairs(setting))
    row: Row = {
        f"{name} beside {other}, tokens/s": round(both.baseline),
        f"{other} beside {name}, tokens/s": round(both.ours),
        f"{other} / {name}": round(both.ratio, 3),
        f"{other} / {name}, smallest and largest": f"{both.low:.3f} to {both.high:.3f}",
        f"{other}, MiB": round(added),
        f"{other} / {name}, MiB": round(added / max(memory, 1), 3),
    }
    return row | {f"{other}, graphs": engines.graphs(job.model)}
