"""Time of a batch and memory of Skip-Retain training and stochastic cross-head attention, beside plain Transformer-XL.

    python benchmarks/skip_cross_head_speed.py                           # 8 layers of 128, the model of small.sh
    python benchmarks/skip_cross_head_speed.py --output benchmarks/skip_cross_head_speed.md
    python benchmarks/skip_cross_head_speed.py --device cuda --width 512 --heads 8 --block 512 --batch 50

The two of a row run in turn in one process (A B A B ...) and the ratio is the median over the pairs, so that a drift of
the machine's speed hits both. A run is some updates, forward, backward and Adam step on random tokens, with a full
memory. In phase 1 the same updates are made in every run, with the coins of their numbers; their share of skipped
layers is printed beside the expected one. Phase 2 is plain training. Peak memory is of a process of its own.
"""

import argparse
from types import SimpleNamespace

import paths  # noqa: F401  finds the suite
import timing
import torch
from architectures import Vocabulary
from page import table

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
    sizes = dict(layers=8, width=128, heads=4, block=64, batch=16, vocabulary=205)
    parser = timing.options(__doc__, sizes, pairs=21)
    parser.add_argument("--dropout", type=float, default=0.1, help="(%(default)s)")
    parser.add_argument("--updates", type=int, default=20, help="in a run (%(default)s)")
    return parser


def main():
    timing.main(options().parse_args(), [head, comparison], memory)


def head(args) -> str:
    return timing.head(
        args,
        "Speed of Skip-Retain training and cross-head attention",
        "How much time and memory does a batch take with each method, beside plain Transformer-XL?",
        f"{args.layers} layers, width {args.width}, FFN {4 * args.width}, {args.heads} "
        f"heads, block and memory {args.block}, batch {args.batch}, vocabulary {args.vocabulary}, dropout "
        f"{args.dropout}. Medians of {args.pairs} pairs of runs of {args.updates} updates; in brackets the smallest "
        "and the largest ratio. Peak memory is that of training beyond the loaded model, in brackets beside plain's.",
    )


def comparison(args) -> str:
    plain, plain_memory, rows = Training(args, {}), timing.in_own_process({}), []
    for name, (given, paper) in CONFIGURATIONS.items():
        ours, memory = Training(args, given), timing.in_own_process(given)
        both = timing.compare(ours, plain, args.pairs)  # of speeds, so that the ratio is one of times
        times = f"{milliseconds(args, both.ours):.1f}, {milliseconds(args, both.baseline):.1f}"
        peak = f"{memory:.0f} ({memory / plain_memory:.3f})"
        rows.append([name, times, both.told(3), paper, ours.skipped(), peak])
    columns = ["training", "ms a batch, plain and ours", "ours / plain", "the paper", "layers skipped"]
    told = table([*columns, "peak memory, MiB"], rows)
    phase_2 = "Phase 2 is plain training, or training with cross-head attention."
    return f"{told}\n\nPlain training takes {plain_memory:.0f} MiB. {phase_2}"


def milliseconds(args, tokens_per_second: float) -> float:
    return 1000 * args.batch * args.block / tokens_per_second


def memory(args, given: dict) -> float:
    return timing.added_memory(Training(args, given))


def build(args, options: dict) -> TransformerXLLanguageModel:
    """A model of the benchmark's sizes."""
    torch.manual_seed(1)
    config = TransformerXLConfig(
        decoder_layers=args.layers,
        decoder_embed_dim=args.width,
        decoder_attention_heads=args.heads,
        decoder_ffn_embed_dim=4 * args.width,
        dropout=args.dropout,
        share_decoder_input_output_embed=True,
        seed=1,
        **{"mem_len": args.block, **options},
    )
    task = SimpleNamespace(keeps_memory=True, source_dictionary=Vocabulary(args.vocabulary))
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
        timing.update(self.optimizer, loss)  # the step passes over skipped layers, which have no gradient

    def skipped(self) -> str:
        """The share of layers that the updates skip, and the one to expect."""
        skip, drawn = self.model.decoder.body.skip, []
        for number in range(self.updates):
            skip.set_num_updates(number)
            drawn += skip.skipped()
        return f"{sum(drawn) / len(drawn):.3f} ({sum(skip.probabilities) / len(skip.probabilities):.3f} expected)"


if __name__ == "__main__":
    main()
