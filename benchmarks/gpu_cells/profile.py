"""The parts of the time: kernels, and the host between them."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import timing
import translation_speed
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from gpu_cells import language, translation
from gpu_cells.cell import MINUTE, Cell, Row, Setting

SHORT = dataclasses.replace(language.WIKITEXT, block=32)  # a whole block is 90 thousand kernels


def of_language(setting: Setting, name: str):
    return language.Models(SHORT, 64, setting).training(name)


def of_decoding(setting: Setting, name: str):
    return language.Models(SHORT, 32, setting).decoding(name)


def of_translation(setting: Setting, name: str):
    return translation.Models(2, setting).build(translation_speed.Training, name)


@dataclass(frozen=True)
class Profile(Cell):
    """Of every engine and the Transformer: milliseconds of a run without the profiler, kernels, milliseconds in which
    the GPU computes, and the kernels that take longest. The tables of torch's profiler lie beside the rows."""

    job: Callable[[Setting, str], timing.Job]
    limit = 5 * MINUTE

    def measure(self, setting: Setting) -> Row:
        row: Row = {}
        for name in ("transformer", *setting.engines):
            found = self.profile(self.job(setting, name), setting, setting.folder / f"{self.job.__name__}-{name}.txt")
            row |= {f"{name}, {column}": value for column, value in found.items()}
        return row

    def profile(self, job: timing.Job, setting: Setting, table: Path) -> Row:
        job(), job()
        wall = round(1000 * timing.timed(job)[1], 2)
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * setting.gpu
        with profile(activities=activities) as profiler:
            job()
            timing.synchronise()
        averages = profiler.key_averages()
        order = "self_device_time_total" if setting.gpu else "self_cpu_time_total"
        table.write_text(averages.table(sort_by=order, row_limit=40, max_name_column_width=100))
        if not setting.gpu:
            return {"ms": wall, "operations": sum(event.count for event in averages if event.key.startswith("aten::"))}
        kernels = [*filter(of_gpu, profiler.events())]
        longest = sorted(filter(of_gpu, averages), key=lambda event: event.self_device_time_total, reverse=True)[:5]
        return {
            "ms": wall,
            "kernels": len(kernels),
            "ms in kernels": round(sum(kernel.time_range.elapsed_us() for kernel in kernels) / 1000, 2),
            "longest": "; ".join(f"{event.key[:60]} {event.self_device_time_total / 1000:.2f} ms" for event in longest),
        }


def of_gpu(event) -> bool:
    """Is it a kernel or a copy? Names that a program gives to a stretch of time have the GPU's type, too."""
    return event.device_type == DeviceType.CUDA and not event.is_user_annotation


CELLS: dict[str, Cell] = {
    "profile-language": Profile(of_language),
    "profile-decoding": Profile(of_decoding),
    "profile-translation": Profile(of_translation),
}
