"""The places where the host waits for the device, by file and line."""

import contextlib
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import translation_speed
from operations import Waits

from fairseq_plugins.criterions.streaming_lm import StreamingLMCriterion
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from gpu_cells import language, translation
from gpu_cells.cell import MINUTE, Cell, Row, Setting

OURS = re.compile(r".*/(fairseq(?:_plugins)?/.+)")
OPTIMIZERS = "/torch/optim/"  # they read their step counters, which are on the CPU with a GPU, too


class Places(list):
    """A list of what waits, which notes from where it was filled: the innermost line of this suite's or fairseq's."""

    def append(self, what) -> None:
        stack = traceback.extract_stack()
        if not any(OPTIMIZERS in frame.filename for frame in stack):
            super().append(place(stack))


def place(stack: traceback.StackSummary) -> str:
    for frame in reversed(stack):
        if found := OURS.fullmatch(frame.filename):
            return f"{found[1]}:{frame.lineno}"
    return "the benchmark"


@contextlib.contextmanager
def noticed_by_the_gpu() -> Iterator[Places]:
    """torch warns at each operation that waits."""
    places = Places()

    def show(message, *rest, **more):
        if "synchronizing" in str(message):
            places.append(message)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield places
        finally:
            torch.cuda.set_sync_debug_mode("default")


@contextlib.contextmanager
def told_by_operations() -> Iterator[Places]:
    """On a CPU, the operations that would wait for a GPU."""
    waits = Waits()
    waits.seen = Places()
    with waits:
        yield waits.seen


class Update:
    """An update of a language model with this suite's criterion; lm_speed.py's jobs have a loss of their own."""

    def __init__(self, job):
        self.job, self.memory = job, StreamMemory()
        self.criterion = StreamingLMCriterion(SimpleNamespace(target_dictionary=SimpleNamespace(pad=lambda: 1)))

    def __call__(self) -> None:
        tokens = self.job.tokens
        sample = {"net_input": {"src_tokens": tokens[:, :-1], "memory": self.memory}, "target": tokens[:, 1:]}
        loss, _, _ = self.criterion(self.job.model, {**sample, "ntokens": tokens.numel(), "nsentences": len(tokens)})
        self.job.step(loss)


def of_language(setting: Setting, engine: str) -> dict[str, Callable]:
    models = language.Models(language.WIKITEXT, 4, setting)
    return {"an update": Update(models.training(engine)), "decoding": models.decoding(engine)}


def of_translation(setting: Setting, engine: str) -> dict[str, Callable]:
    build = translation.Models(2, setting).build
    jobs = translation_speed.Training, translation_speed.Generation
    return {"three updates": build(jobs[0], engine), "25 steps of decoding": build(jobs[1], engine, 4, 1)}


@dataclass(frozen=True)
class Synchronisations(Cell):
    """Of training and of decoding, with every engine and with the Transformer: how often the host waits, and where."""

    jobs: Callable[[Setting, str], dict[str, Callable]]
    limit = 3 * MINUTE

    def measure(self, setting: Setting) -> Row:
        row: Row = {"noticed by": "the GPU" if setting.gpu else "the names of operations"}
        for engine in ("transformer", *setting.engines):
            for what, job in self.jobs(setting, engine).items():
                row[f"{engine}, {what}"] = told(self.places(job, setting))
        return row

    def places(self, job, setting: Setting) -> Counter:
        job()  # work that is done only once: buffers, graphs, optimizer states
        job()
        with noticed_by_the_gpu() if setting.gpu else told_by_operations() as places:
            job()
        return Counter(places)


def told(places: Counter) -> str:
    return "; ".join([str(places.total()), *(f"{count} at {where}" for where, count in places.most_common())])


CELLS: dict[str, Cell] = {
    "synchronisations-language": Synchronisations(of_language),
    "synchronisations-translation": Synchronisations(of_translation),
}
