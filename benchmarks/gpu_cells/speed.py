"""Speed and peak memory: one baseline, and others beside it in the same run."""

import gc
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor

import timing
import torch
from torch import nn

from fairseq_plugins.modules.feedback.stack import FeedbackStack
from gpu_cells.cell import Row, Setting

OUT_OF_MEMORY = "out of memory"
DTYPE = "bfloat16"

Build = Callable[[], timing.Job]


def pairs(setting: Setting) -> int:
    return 1 if setting.smoke else 5


class Whole:
    """Builds a job when it is called first, so that its weights count. Two calls make three runs: in decoding the third
    is the first with all graphs."""

    def __init__(self, build: Build):
        self.build, self.job = build, None

    def __call__(self) -> int:
        if self.job is None:
            self.job = self.build()
            self.job()
        return self.job()


def peak(setting: Setting, build: Build) -> float | str:
    if setting.gpu:
        torch.zeros(1, device=setting.device)  # what CUDA itself takes counts against nobody
    try:
        return round(timing.added_memory(Whole(build)))
    except torch.cuda.OutOfMemoryError:
        return OUT_OF_MEMORY


def memory(setting: Setting, builds: Mapping[str, Build]) -> Row:
    """MiB of each job: weights, gradients, the optimizer's state, activations, libraries and graphs.

    Each is measured in a process of its own, since it would find the memory that another has left. Call it before this
    process uses the GPU.
    """
    row: Row = {}
    for name, build in builds.items():
        with ProcessPoolExecutor(max_workers=1) as process:
            row[f"{name}, MiB"] = process.submit(peak, setting, build).result()
    return row


def against(setting: Setting, baseline: tuple[str, Build], others: Mapping[str, Build]) -> Row:
    """Build the baseline and, one after the other, the jobs beside it; run each pair in turn.

    Args:
        baseline: its name, and what builds the job
        others: the same, by name

    Returns:
        Of every job tokens a second, the ratio to the baseline's speed (median, smallest, largest), and how many CUDA
        graphs it had. One that needs more memory than there is says so, and the others go on.
    """
    name, build = baseline
    try:
        first = build()
        first()
    except torch.cuda.OutOfMemoryError:
        return {name: OUT_OF_MEMORY}
    row: Row = {}
    for other, build_other in others.items():
        try:
            row |= one(setting, name, first, other, build_other)
        except torch.cuda.OutOfMemoryError:
            row[other] = OUT_OF_MEMORY
        gc.collect()
        if setting.gpu:
            torch.cuda.empty_cache()
    return row


def one(setting: Setting, name: str, baseline: timing.Job, other: str, build: Build) -> Row:
    job = build()
    job(), job()  # and once more in `compare`: in decoding the third run is the first with all graphs
    both = timing.compare(baseline, job, pairs(setting))
    row: Row = {
        f"{name} beside {other}, tokens/s": round(both.baseline),
        f"{other} beside {name}, tokens/s": round(both.ours),
        f"{other} / {name}": round(both.ratio, 3),
        f"{other} / {name}, smallest and largest": f"{both.low:.3f} to {both.high:.3f}",
    }
    return row | {f"{other}, graphs": graphs(job.model)}


def graphs(model: nn.Module) -> str | int:
    """How many graphs the model has, or why it has none any more."""
    stacks = [part.graphs for part in model.modules() if isinstance(part, FeedbackStack)]
    refusals = [made.refusal for made in stacks if made.refusal]
    return refusals[0] if refusals else sum(len(made.kept) for made in stacks)
