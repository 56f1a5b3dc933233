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
from statistics import median
from types import SimpleNamespace

import paths  # noqa: F401  finds the suite
import timing
import torch
from architectures import Vocabulary
from page import table
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
    sizes = dict(layers=4, width=256, ffn=1024, heads=8, head_dim=64, kernel=20, tokens=2048, batch=1, vocabulary=1000)
    parser = timing.options(__doc__, sizes)
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024], help="tokens of a sequence (%(default)s)"
    )
    parser.add_argument("--mixers", nargs="+", choices=MIXERS, default=list(MIXERS), help="(all)")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), help="(all)")
    return parser


def main():
    args = options().parse_args()
    timing.main(args, [head, *(TABLES[name] for name in args.tables)])


def head(args) -> str:
    return timing.head(
        args,
        "Speed of active memory",
        "How does the cost of a convolution, and of attention, grow with the length of the sequence?",
        f"{args.layers} layers, width {args.width}, FFN {args.ffn}, {args.heads} heads of "
        f"{args.head_dim}, kernel {args.kernel}, vocabulary {args.vocabulary}.",
    )


def training_table(args) -> str:
    """Tokens per second and, in brackets, the ratio to self-attention at the same length."""
    attention, rows = {length: [] for length in args.lengths}, []
    for mixer in (name for name in args.mixers if name != ATTENTION):
        rows.append([mixer])
        for length in tqdm(args.lengths, desc=mixer):
            measured = timing.compare(Training(args, ATTENTION, length), Training(args, mixer, length), args.pairs)
            attention[length].append(measured.baseline)
            spread = f"{measured.low:.2f} to {measured.high:.2f}"
            rows[-1].append(f"{measured.ours:.0f} (**{measured.ratio:.2f}**, {spread})")
    rows.append([f"{ATTENTION}, beside them", *(f"{median(found):.0f}" for found in attention.values() if found)])
    said = (
        f"The figures are medians of {args.pairs} pairs of runs. Brackets have the ratio to self-attention (above 1 is"
        " faster), and the smallest and the largest ratio."
    )
    return f"## Training, tokens/s, {args.tokens} tokens an update\n\n{by_length(args, rows)}\n\n{said}"


def decoding_table(args) -> str:
    rows = []
    for mixer in args.mixers:
        rows.append([mixer])
        for length in tqdm(args.lengths, desc=mixer):
            job = Decoding(args, mixer, length, calls=args.pairs + 1)
            job()
            rows[-1].append(f"{median(timing.tokens_per_second(job) for _ in range(args.pairs)):.0f}")
    return f"## Decoding, tokens/s after so many tokens, batch {args.batch}\n\n{by_length(args, rows)}"


TABLES = {"training": training_table, "decoding": decoding_table}


def by_length(args, rows: list[list[str]]) -> str:
    return table(["mixer", *map(str, args.lengths)], rows)


def build(args, mixer: str) -> ActiveMemoryLanguageModel:
    """A model of the benchmark's sizes."""
    torch.manual_seed(1)
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
    model = ActiveMemoryLanguageModel.build_model(
        config, SimpleNamespace(source_dictionary=Vocabulary(args.vocabulary))
    )
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
        timing.update(self.optimizer, loss)
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
