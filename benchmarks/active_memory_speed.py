"""Speed of active memory against self-attention of the same size, by the length of the sequence.

    python benchmarks/active_memory_speed.py                                   # 4 layers of 256, kernel 20
    python benchmarks/active_memory_speed.py --output benchmarks/active_memory_speed.md
    python benchmarks/active_memory_speed.py --device cuda --dtype bfloat16 --tokens 65536
    python benchmarks/active_memory_speed.py --mixers convolution --lengths 64 1024 --tables training

Training is forward, backward and Adam step on random tokens, as many tokens an update at every length. Each operator
and self-attention run in turn in one process (A B A B ...); the ratio is the median over the pairs, so that a drift of
the machine's speed hits both. Decoding is one step of every sequence at a time, after so many tokens; the cost of a
convolution's step does not depend on them, self-attention's does.
"""

import argparse
import copy
import datetime
import os
import platform
import sys
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import paths  # noqa: F401  finds the suite
import timing
import torch
from fairseq.data import Dictionary
from torch.nn import functional as F
from tqdm import tqdm

import fairseq_plugins  # noqa: F401  patches fairseq
from fairseq_plugins.models.active_memory_lm import (
    ActiveMemoryLanguageModel,
    ActiveMemoryLanguageModelConfig,
)
from fairseq_plugins.modules.active_memory.mixers import ATTENTION, MIXERS

STEPS = 16  # of decoding, in a measured run


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = dict(layers=4, width=256, ffn=1024, heads=8, head_dim=64, kernel=20, tokens=2048, batch=1, vocabulary=1000)
    for name, value in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value, help="(%(default)s)")
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024], help="tokens of a sequence (%(default)s)"
    )
    parser.add_argument("--mixers", nargs="+", choices=MIXERS, default=list(MIXERS), help="(all)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"], help="(%(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="measured pairs of runs (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the CPU (%(default)s)")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), help="(all)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the tables there too (Markdown)")
    return parser


def main():
    args = options().parse_args()
    torch.set_num_threads(args.threads)
    timing.report((part(args) for part in (header, *(TABLES[name] for name in args.tables))), args.output)


def header(args) -> list[str]:
    device = torch.cuda.get_device_name() if args.device == "cuda" else f"CPU, {args.threads} threads"
    return [
        "# Speed of active memory",
        "",
        "**Question.** How does the cost of a convolution, and of attention, grow with the length of the sequence?",
        "**Set-up.** "
        f"{datetime.date.today()}, {device} ({platform.machine()}), {args.dtype}, Python {platform.python_version()}, "
        f"torch {torch.__version__}. {args.layers} layers, width {args.width}, FFN {args.ffn}, {args.heads} heads of "
        f"{args.head_dim}, kernel {args.kernel}, vocabulary {args.vocabulary}.",
        "",
        f"    {' '.join(['python', 'benchmarks/active_memory_speed.py', *sys.argv[1:]])}",
        "",
    ]


def training_table(args) -> list[str]:
    """Tokens per second and, in brackets, the ratio to self-attention at the same length."""
    rows = title(f"## Training, tokens/s, {args.tokens} tokens an update", args.lengths)
    attention = {length: [] for length in args.lengths}
    for mixer in (name for name in args.mixers if name != ATTENTION):
        cells = []
        for length in tqdm(args.lengths, desc=mixer):
            measured = timing.compare(Training(args, ATTENTION, length), Training(args, mixer, length), args.pairs)
            attention[length].append(measured.baseline)
            spread = f"{measured.low:.2f} to {measured.high:.2f}"
            cells.append(f"{measured.ours:.0f} (**{measured.ratio:.2f}**, {spread})")
        rows.append(row(mixer, cells))
    rows.append(row(f"{ATTENTION}, beside them", [f"{median(found):.0f}" for found in attention.values() if found]))
    said = (
        f"Medians of {args.pairs} pairs of runs; in brackets the ratio to self-attention, above 1 is faster, and the"
        " ratios' smallest and largest."
    )
    return [*rows, "", said, ""]


def decoding_table(args) -> list[str]:
    rows = title(f"## Decoding, tokens/s after so many tokens, batch {args.batch}", args.lengths)
    for mixer in args.mixers:
        speeds = []
        for length in tqdm(args.lengths, desc=mixer):
            job = Decoding(args, mixer, length, calls=args.pairs + 1)
            job()
            speeds.append(median(timing.tokens_per_second(job) for _ in range(args.pairs)))
        rows.append(row(mixer, [f"{speed:.0f}" for speed in speeds]))
    return [*rows, ""]


TABLES = {"training": training_table, "decoding": decoding_table}


def title(text: str, lengths: list[int]) -> list[str]:
    return [text, "", row("mixer", map(str, lengths)), "| --- " * (len(lengths) + 1) + "|"]


def row(name: str, cells) -> str:
    return f"| {' | '.join([name, *cells])} |"


def build(args, mixer: str) -> ActiveMemoryLanguageModel:
    """A model of the benchmark's sizes."""
    torch.manual_seed(1)
    words = Dictionary()
    for number in range(args.vocabulary - words.nspecial):
        words.add_symbol(str(number))
    config = ActiveMemoryLanguageModelConfig(
        mixer=mixer,
        kernel_size=args.kernel,
        decoder_layers=args.layers,
        decoder_embed_dim=args.width,
        decoder_ffn_embed_dim=args.ffn,
        decoder_attention_heads=args.heads,
        decoder_head_dim=args.head_dim,
        weight_init="glorot",
        max_target_positions=None,
    )
    model = ActiveMemoryLanguageModel.build_model(config, SimpleNamespace(source_dictionary=words))
    return model.to(args.device, getattr(torch, args.dtype))


class Training:
    """An update; a call returns the number of tokens."""

    def __init__(self, args, mixer: str, length: int):
        self.model = build(args, mixer).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        shape = (max(args.tokens // length, 1), length + 1)
        self.tokens = torch.randint(4, args.vocabulary, shape).to(args.device)

    def __call__(self) -> int:
        logits, _ = self.model(self.tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), self.tokens[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return self.tokens[:, 1:].numel()


class Decoding:
    """Some steps after so many tokens, which can be called so many times; a call returns the number of tokens."""

    @torch.no_grad()
    def __init__(self, args, mixer: str, length: int, calls: int):
        self.decoder = build(args, mixer).eval().decoder
        self.token = torch.randint(4, args.vocabulary, (args.batch,)).to(args.device)
        state = self.decoder.stack.start(self.decoder.embed(self.token))
        for _ in range(length):
            self.decoder.stack.step(state, self.decoder.embed(self.token))
        self.states = [copy.deepcopy(state) for _ in range(calls)]  # a step changes it

    @torch.no_grad()
    def __call__(self) -> int:
        state = self.states.pop()
        for _ in range(STEPS):
            self.decoder.output(self.decoder.stack.step(state, self.decoder.embed(self.token)))
        return STEPS * len(self.token)


if __name__ == "__main__":
    main()
