"""Upper bounds of the other pages' speeds on this machine, and the share of them that is reached.

    python benchmarks/bounds.py
    python benchmarks/bounds.py --output benchmarks/bounds.md
    python benchmarks/bounds.py --pages agent_speed

The bound is the time of a run if the slower of two were all that it did: its products of matrices, at the speed of
torch.mm, or reading once what each of its steps must read, at the speed of torch.sum over memory that no cache holds.
Products are counted while the job runs. A step of decoding must read the weights and, in a stream, the keys
and values. The jobs are those of the pages.
"""

import argparse
import os
import statistics
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import active_memory_speed
import agent_speed
import lm_speed
import page
import skip_cross_head_speed
import timing
import torch
import translation_speed
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count
from tqdm import tqdm

from fairseq_plugins.modules.common.compiled import library

RUNS = 3
COLUMNS = ["page: job", "tokens/s", "products, GFLOP", "reads, MiB", "at most, tokens/s", "reached"]


class Bounded(NamedTuple):
    """A job of a page.

    Attributes:
        reads: MiB that a run must read at least; 0 where products take longer in any case
        start: makes the state that the job keeps, if there is one
    """

    name: str
    job: timing.Job
    reads: float = 0.0
    start: Callable[[], None] = lambda: None


def of_language_models(args: Namespace) -> Iterator[Bounded]:
    seen = 2 * args.span * args.width * args.batch * 4 / 2**20  # MiB, keys and values of a layer
    for name, kind, options, sources in (
        ("Transformer", "transformer", {}, 0),
        ("Feedback, keys and values shared", "feedback", {"feedback_kv": "shared"}, 1),
        ("Feedback, keys and values per-layer", "feedback", {"feedback_kv": "per-layer"}, args.layers),
        ("all-attention", "all-attention", {"persistent_vectors": 4 * args.width}, 0),
    ):  # Feedback's steps read them forward and backward
        yield Bounded(f"training, {name}", lm_speed.Training(args, kind, **options), args.block * 2 * sources * seen)
    for batch, steps in ((1, 64), (args.batch, 16)):
        for name, options in (("transformer", {}), lm_speed.SHARED):
            job = lm_speed.Generation(args, name, batch, steps, **options)
            reads = steps * (weights_of_a_step(job.model.decoder) + mebibytes(job.buffers()))
            yield Bounded(f"decoding, batch {batch}, {name}", job, reads, partial(begun, job, args))


def begun(job: lm_speed.Generation, args: Namespace) -> None:
    """A new state, whose first step makes the keys and values of a full memory."""
    job.start(args)
    job()


def of_translation(args: Namespace) -> Iterator[Bounded]:
    for depth in (1, 6):
        for name in translation_speed.ARCHS:
            yield Bounded(f"training, {name}, {depth} decoder layers", translation_speed.Training(args, name, depth))
    for name in translation_speed.ARCHS:
        job = translation_speed.Generation(args, name, 6, 1, 8)
        reads = len(job.batches) * translation_speed.SENTENCE * weights_of_a_step(job.model.decoder)
        yield Bounded(f"beam search, batch 1, {name}, 6 decoder layers", job, reads)


def of_active_memory(args: Namespace) -> Iterator[Bounded]:
    for mixer in ("self-attention", "convolution", "highway-convolution", "cgru"):
        for length in (64, 1024):
            yield Bounded(f"training, {mixer}, length {length}", active_memory_speed.Training(args, mixer, length))
    for mixer in ("self-attention", "convolution"):
        job = active_memory_speed.Decoding(args, mixer, 64, calls=RUNS + 2)
        yield Bounded(f"decoding, {mixer}, after 64", job, active_memory_speed.STEPS * weights_of_a_step(job.decoder))


def of_transformer_xl(args: Namespace) -> Iterator[Bounded]:
    yield Bounded("training, plain", skip_cross_head_speed.Training(args, {}))
    yield Bounded("training, phase 1", skip_cross_head_speed.Training(args, skip_cross_head_speed.PHASE_1))


def of_agents(args: Namespace) -> Iterator[Bounded]:
    size = agent_speed.sizes(args)[0]
    for name in ("span_transformer_agent", "feedback_agent"):  # an LSTM's products are within one operation
        yield Bounded(f"acting and training, {name}", agent_speed.Training(size, name))


PAGES: dict[str, tuple[Callable[[Namespace], Iterator[Bounded]], Callable[[], argparse.ArgumentParser]]] = {
    "lm_speed": (of_language_models, lm_speed.options),
    "translation_speed": (of_translation, translation_speed.options),
    "active_memory_speed": (of_active_memory, active_memory_speed.options),
    "skip_cross_head_speed": (of_transformer_xl, skip_cross_head_speed.options),
    "agent_speed": (of_agents, agent_speed.options),
}


def weights_of_a_step(decoder: torch.nn.Module) -> float:
    """MiB of the weights that each step reads. It reads one row of a table of embeddings, unless the table is the
    output's too. The keys and values of a source are made once a sentence."""
    tables = {id(m.weight) for m in decoder.modules() if isinstance(m, torch.nn.Embedding)}
    outputs = {id(m.weight) for m in decoder.modules() if isinstance(m, torch.nn.Linear)}
    once = ("encoder_attn.k_proj", "encoder_attn.v_proj")
    named = decoder.named_parameters()
    return mebibytes(x for name, x in named if id(x) not in tables - outputs and not any(part in name for part in once))


def mebibytes(tensors) -> float:
    return sum(x.numel() * x.element_size() for x in tensors) / 2**20


def fastest(run: Callable[[], object], times: int = 20) -> float:
    """Seconds."""
    return min(timing.timed(run)[1] for _ in range(times))


def products_a_second() -> float:
    """FLOP/s of torch.mm."""
    a, b = torch.randn(2048, 1024), torch.randn(1024, 2048)
    return 2 * 2048 * 1024 * 2048 / fastest(lambda: a @ b)


def bytes_a_second() -> float:
    """Of a sum over memory that no cache holds."""
    x = torch.ones(2**27)
    return 4 * len(x) / fastest(x.sum)


def activated(bias, a, b, **rest) -> int:
    return 2 * a[0] * a[1] * b[1]


def attended(query, key, value, dropout=0.0, causal=False, **rest) -> float:
    return sdpa_flop_count(query, key, value) * (0.5 if causal else 1)


def attended_backward(grad, query, key, value, out, logsumexp, dropout=0.0, causal=False, **rest) -> float:
    return sdpa_backward_flop_count(grad, query, key, value) * (0.5 if causal else 1)


UNKNOWN_TO_TORCH = {  # to its counter
    torch.ops.aten._addmm_activation: activated,
    torch.ops.aten.baddbmm_: lambda base, a, b, **rest: 2 * a[0] * a[1] * a[2] * b[2],
    torch.ops.aten.mv: lambda a, b, **rest: 2 * a[0] * a[1],
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attended,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attended_backward,
}


def products(bounded: Bounded) -> float:
    """FLOP of the products of a run."""
    counter = FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_TORCH)
    with without_compiler():
        bounded.start()
        with counter:
            bounded.job()
    bounded.start()
    return counter.get_total_flops()


@contextmanager
def without_compiler() -> Iterator[None]:
    """Decoding is torch's, whose products the counter sees; those of functions in C it does not."""
    library.cache_clear()
    with mock.patch.dict(os.environ, CC="no-compiler"):
        yield
    library.cache_clear()


def row(name: str, bounded: Bounded, flops: float, bandwidth: float) -> list[str]:
    needed = products(bounded)
    speeds, tokens = [], bounded.job()
    for _ in range(RUNS):
        speeds.append(timing.tokens_per_second(bounded.job))
    most = tokens / max(needed / flops, bounded.reads * 2**20 / bandwidth)
    speed = statistics.median(speeds)
    reads = f"{bounded.reads:.0f}" if bounded.reads else ""
    job = f"{name}: {bounded.name}"
    return [job, f"{speed:.0f}", f"{needed / 1e9:.1f}", reads, f"{most:.0f}", f"{speed / most:.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", nargs="+", choices=PAGES, default=list(PAGES), help="(all)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="(%(default)s)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="a page with the table; the text below it remains")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with timing.alone():
        flops, bandwidth = products_a_second(), bytes_a_second()
        rows = []
        for name in args.pages:
            jobs, options = PAGES[name]
            for bounded in tqdm(jobs(options().parse_args(["--device", "cpu"])), desc=name):
                rows.append(row(name, bounded, flops, bandwidth))
    head = page.head(
        "Bounds of the speeds",
        "How close do the measured speeds come to the limits of the machine?",
        f"{page.cpu()}, {args.threads} threads, float32, torch {torch.__version__}: "
        f"{flops / 1e9:.0f} GFLOP/s in torch.mm, {bandwidth / 1e9:.1f} GB/s in torch.sum. Medians of {RUNS} runs.",
    )
    page.show(f"{head}\n\n{page.table(COLUMNS, rows)}", args.output)


if __name__ == "__main__":
    main()
