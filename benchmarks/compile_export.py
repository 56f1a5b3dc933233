"""What torch.compile and torch.export make of a language model's forward pass, and the time that they take.

    python benchmarks/compile_export.py --output benchmarks/compile_export.md

Each architecture `NAME_tiny` reads 1 x 32 tokens without gradients. Compiled code is built anew, without a cache.
Times are CPU seconds, which other work on the machine changes little.
"""

import argparse
import os
from functools import partial
from pathlib import Path

import page  # first: it finds the suite, and shared/
import torch
import torch._inductor.config
from torch._dynamo.utils import counters
from tqdm import tqdm

import architectures  # isort: skip

VOCABULARY, TOKENS, CALLS = 24, 32, 20
MODELS = {
    "span_transformer_lm": {},
    "span_transformer_lm, adaptive spans": {"adaptive_span": True},
    "all_attention_lm": {},
    "transformer_xl_lm": {},
    "active_memory_lm": {},
    "lstm_stream_lm": {},
    "feedback_lm": {},
}
COLUMNS = ["model", "graphs", "first call, s", "later calls, ms", "eager, ms", "largest difference", "export, s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="(%(default)s)")
    parser.add_argument("--output", type=Path, help="a page with the table; the text below it remains")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch._inductor.config.compile_threads, torch._inductor.config.force_disable_caches = 1, True
    rows = [row(name, options, args.tokens) for name, options in tqdm(MODELS.items())]
    head = page.head(
        "torch.compile and torch.export",
        "Which language models go through torch.compile and torch.export, and how long does that take?",
        f"{page.cpu()}, {page.python()}, torch {torch.__version__}. 1 x {args.tokens} tokens, architectures `_tiny`, no"
        " gradients. CPU seconds, those of the C++ compiler included.",
    )
    page.show(f"{head}\n\n{page.table(COLUMNS, rows)}", args.output)


@torch.no_grad()
def row(name: str, options: dict, tokens: int) -> list[str]:
    """The cells of a model."""
    model = architectures.build(f"{name.partition(',')[0]}_tiny", VOCABULARY, seed=0, **options).eval()
    block = torch.randint(4, VOCABULARY, (1, tokens))
    expected = model(block)[0]
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(model)
    first, made = timed(lambda: compiled(block)[0])
    graphs = counters["stats"]["unique_graphs"]
    later, eager = (milliseconds(partial(call, block)) for call in (compiled, model))
    export, exported = timed(lambda: torch.export.export(model, (block,)).module())
    difference = max((each - expected).abs().max().item() for each in (made, exported(block)[0]))
    return [name, str(graphs), f"{first:.0f}", later, eager, f"{difference:.0e}", f"{export:.0f}"]


def timed(call):
    """The CPU seconds of a call, those of the C++ compiler included, and its result."""
    start = sum(os.times()[:4])
    result = call()
    return sum(os.times()[:4]) - start, result


def milliseconds(call) -> str:
    """Of one of CALLS calls."""
    return f"{1000 * timed(lambda: [call() for _ in range(CALLS)])[0] / CALLS:.1f}"


if __name__ == "__main__":
    main()
