"""Time of a batch and memory of Skip-Retain training and stochastic cross-head attention, beside plain Transformer-XL.

    python benchmarks/skip_cross_head_speed.py                           # 8 layers of 128, the model of small.sh
    python benchmarks/skip_cross_head_speed.py --output benchmarks/skip_cross_head_speed.md
    python benchmarks/skip_cross_head_speed.py --device cuda --width 512 --heads 8 --block 512 --batch 50

The two of a row run in turn in one process (A B A B ...) and the ratio is the median over the pairs, so that a drift of
the machine's speed hits both. A run is some updates, forward, backward and Adam step on random tokens, with a full
memory. In phase 1 the same updates are made in every run, with the coins of their numbers; their share of skipped
layers stands beside the expected one. Phase 2 is plain training. Peak memory is of a process of its own.
"""

import argparse
import datetime
import json
import os
import platform
import sys
from pathlib import Path
from types import SimpleNamespace

import paths  # noqa: F401  finds the suite
import timing
import torch
from fairseq.data import Dictionary

import fairseq_plugins  # noqa: F401  patches fairseq
from fairseq_plugins.models.transformer_xl_lm import (
    TransformerXLConfig,
    TransformerXLLanguageModel,
)
from fairseq_plugins.modules.common.stream_memory import StreamMemory

CROSS_HEAD, PHASE_1 = {"cross_head_p": 0.1}, {"skip_schedule": "linear"}
CONFIGURATIONS = {  # name -> options, and the paper's time of a batch beside the plain one's (Table 5)
    "cross-head": (CROSS_HEAD, "608 / 607 = 1.00"),
    "phase 1": (PHASE_1, "535 / 607 = 0.88"),
    "phase 1, cross-head": ({**CROSS_HEAD, **PHASE_1}, "538 / 607 = 0.89"),
    **{f"phase 1, uniform {p}": ({"skip_schedule": "uniform", "skip_p": p}, "not given") for p in (0.1, 0.3, 0.5)},
}


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = dict(layers=8, width=128, heads=4, block=64, batch=16, vocabulary=205)
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value, help="(%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="(%(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"], help="(%(default)s)")
    parser.add_argument("--updates", type=int, default=20, help="in a run (%(default)s)")
    parser.add_argument("--pairs", type=int, default=21, help="measured pairs of runs (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the CPU (%(default)s)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table there too (Markdown)")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    return parser


def main():
    args = options().parse_args()
    torch.set_num_threads(args.threads)
    if args.memory_of:
        print(json.dumps(timing.added_memory(Training(args, json.loads(args.memory_of)))))
        return
    timing.report((part(args) for part in (header, table)), args.output)


def header(args) -> list[str]:
    device = torch.cuda.get_device_name() if args.device == "cuda" else f"CPU, {args.threads} threads"
    return [
        "# Speed of Skip-Retain training and cross-head attention",
        "",
        "**Question.** How long does a batch take, and how much memory, with each method beside plain Transformer-XL?",
        "**Set-up.** "
        f"{datetime.date.today()}, {device} ({platform.machine()}), {args.dtype}, Python {platform.python_version()}, "
        f"torch {torch.__version__}. {args.layers} layers, width {args.width}, FFN {4 * args.width}, {args.heads} "
        f"heads, block and memory {args.block}, batch {args.batch}, vocabulary {args.vocabulary}, dropout "
        f"{args.dropout}. Medians of {args.pairs} pairs of runs of {args.updates} updates; in brackets the smallest "
        "and the largest ratio. Peak memory is that of training beyond the loaded model, in brackets beside plain's.",
        "",
        f"    {' '.join(['python', 'benchmarks/skip_cross_head_speed.py', *sys.argv[1:]])}",
        "",
    ]


def table(args) -> list[str]:
    plain, plain_memory = Training(args, {}), memory_of(args, {})
    columns = ["training", "ms a batch, plain and ours", "ours / plain", "the paper", "layers skipped"]
    columns += ["peak memory, MiB"]
    rows = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for name, (options, paper) in CONFIGURATIONS.items():
        ours, memory = Training(args, options), memory_of(args, options)
        both = timing.compare(ours, plain, args.pairs)  # of speeds, so that the ratio is one of times
        rows.append(
            f"| {name} | {milliseconds(args, both.ours):.1f}, {milliseconds(args, both.baseline):.1f} | "
            f"**{both.ratio:.3f}** ({both.low:.3f} to {both.high:.3f}) | {paper} | {ours.skipped()} | "
            f"{memory:.0f} ({memory / plain_memory:.3f}) |"
        )
    return [*rows, "", f"Plain: {plain_memory:.0f} MiB. Phase 2 is plain training, or cross-head."]


def milliseconds(args, tokens_per_second: float) -> float:
    return 1000 * args.batch * args.block / tokens_per_second


def memory_of(args, options: dict) -> float:
    return timing.in_own_process("--memory-of", json.dumps(options))


def build(args, options: dict) -> TransformerXLLanguageModel:
    """A model of the benchmark's sizes."""
    torch.manual_seed(1)
    words = Dictionary()
    for number in range(args.vocabulary - words.nspecial):
        words.add_symbol(str(number))
    config = TransformerXLConfig(
        decoder_layers=args.layers,
        decoder_embed_dim=args.width,
        decoder_attention_heads=args.heads,
        decoder_ffn_embed_dim=4 * args.width,
        mem_len=args.block,
        dropout=args.dropout,
        share_decoder_input_output_embed=True,
        seed=1,
        **options,
    )
    task = SimpleNamespace(keeps_memory=True, source_dictionary=words)
    return TransformerXLLanguageModel.build_model(config, task).to(args.device, getattr(torch, args.dtype))


class Training:
    """Some updates over streams; a call trains and returns the number of tokens."""

    def __init__(self, args, options: dict):
        self.model = build(args, options).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.updates = args.updates
        self.tokens = torch.randint(4, args.vocabulary, (args.batch, args.block + 1)).to(args.device)
        self.memory = StreamMemory()
        self.update()  # a full memory

    def __call__(self) -> int:
        for number in range(self.updates):
            self.model.set_num_updates(number)
            self.update()
        return self.updates * self.tokens[:, 1:].numel()

    def update(self) -> None:
        output = self.model(self.tokens[:, :-1], memory=self.memory)
        loss = self.model.token_nll(output, self.tokens[:, 1:]).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()  # passes over skipped layers, which have no gradient

    def skipped(self) -> str:
        """The share of layers that the updates skip, and the one to expect."""
        skip, drawn = self.model.decoder.body.skip, []
        for number in range(self.updates):
            skip.set_num_updates(number)
            drawn += skip.skipped()
        return f"{sum(drawn) / len(drawn):.3f} ({sum(skip.probabilities) / len(skip.probabilities):.3f} expected)"


if __name__ == "__main__":
    main()
