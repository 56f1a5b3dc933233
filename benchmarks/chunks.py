"""Train Feedback on characters exactly, or in chunks of c tokens with K parallel passes each; the score is exact.

    python benchmarks/chunks.py --raw DIR --chunk 4 --passes 2 --exact-end 25    # --chunk 1: exact training

A call is a cell, one training, whose row goes to benchmarks/chunks.jsonl. A cell that has a row is skipped, and a
stopped one continues. DIR has ptb.char.train.txt and ptb.char.valid.txt, or these with .gz. The rule that judges the
rows is in benchmarks/evidence.md. *Projected speed* is relative to exact training, on a GPU (`projected_speed`).
"""

import itertools
import math
import time
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import paths
import torch
from architectures import build
from chunked_recurrence import ChunkedRecurrence
from fairseq.data import Dictionary

from fairseq_plugins.criterions.streaming_lm import StreamingLMCriterion
from fairseq_plugins.errors import UserError
from fairseq_plugins.files.compressed import opened
from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.modules import Chunks
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.modules.feedback.stack import ENGINES
from fairseq_plugins.startup import error_hook
from fairseq_plugins.streams.dataset import BlockSchedule, StreamDataset
from fairseq_plugins.streams.memory import with_memory
from fairseq_plugins.tools import results_table
from fairseq_plugins.tools.lib.command import Command, tell

STREAMS, SCORED_STREAMS, BLOCK, SPAN, HEADS = 16, 32, 64, 64, 4
RATE, WARM_UP, CLIP = 0.002, 100, 0.1
SAVE_EVERY = 100  # updates
# Microseconds of a token on a GPU by the roof of each operation (3.3 TB/s, 400 TFLOP/s, 2.5 µs at least): 8 layers of
# 1,024, span 512, 64 streams, bfloat16. READS of keys and values, products with WEIGHTS, OTHERS; in the last two a step
# of one token leaves the GPU idle, and a large chunk takes PRODUCTS and TRAFFIC.
READS, WEIGHTS, OTHERS, PRODUCTS, TRAFFIC = 986, 303, 380, 127, 155
SETTINGS = {"chunk": 1, "passes": 1, "gradients": "all", "exact_end": 0, "layers": 4, "width": 128, "updates": 1000}


def main(words: list[str] | None = None) -> None:
    args = options().parse(words)
    for name in ("chunk", "passes", "layers", "updates"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name} {getattr(args, name)} is too small; give 1 or more.")
    if not 0 <= args.exact_end <= 100:
        raise UserError(f"--exact-end {args.exact_end} is no percentage; give 0 to 100.")
    if 1 < args.chunk < args.passes:
        raise UserError(f"--passes {args.passes} is more than --chunk {args.chunk}; lower it.")
    torch.set_num_threads(1)
    name = cell_name(args)
    if name in results_table.read_rows(args.rows):
        tell(f"{name} has its row in {args.rows}.")
        return
    cell = Cell(args, args.out / f"{name}.pt")
    cell.train()
    row = {"dev bpc": round(cell.dev_bits(), 4), "seconds": round(cell.seconds, 1)}
    row["projected speed"] = round(projected_speed(args.chunk, args.passes, args.gradients, args.exact_end), 2)
    results_table.add_rows(args.rows, {name: row | {"command": command(args)}})
    cell.state.unlink(missing_ok=True)
    tell(f"{name}: {row['dev bpc']} bits")


def options() -> Command:
    parser = Command(__doc__)
    parser.option("--raw", Path, None, "DIR", "the folder of the text", required=True)
    parser.option("--chunk", int, SETTINGS["chunk"], "c", "tokens of a chunk")
    parser.option("--passes", int, SETTINGS["passes"], "K", "passes over a chunk")
    parser.option("--gradients", str, SETTINGS["gradients"], "PASSES", "through these passes", choices=["all", "last"])
    parser.option("--exact-end", int, SETTINGS["exact_end"], "PERCENT", "of the updates, the last, are exact")
    parser.option("--layers", int, SETTINGS["layers"], "N", "layers")
    parser.option("--width", int, SETTINGS["width"], "N", "width")
    parser.option("--updates", int, SETTINGS["updates"], "N", f"updates of {STREAMS} x {BLOCK} tokens")
    parser.option("--seed", int, 1, "N", "seed of the weights")
    parser.option("--rows", Path, paths.ROOT / "benchmarks/chunks.jsonl", "FILE", "the rows of all cells")
    parser.option("--out", Path, Path("runs/chunks"), "DIR", "the states of unfinished cells")
    return parser


def cell_name(args: Namespace) -> str:
    chunks = [f"c{args.chunk}", f"k{args.passes}", args.gradients, f"end{args.exact_end}"]
    how = ["exact"] if args.chunk == 1 else chunks
    return "-".join([f"{args.layers}x{args.width}", f"{args.updates}", *how, f"seed{args.seed}"])


def command(args: Namespace) -> str:
    """The cell's command, with DIR for the folder of the text."""
    changed = {name: value for name in SETTINGS if (value := getattr(args, name)) != SETTINGS[name]}
    flags = (f"--{name.replace('_', '-')} {value}" for name, value in (changed | {"seed": args.seed}).items())
    return " ".join(["python benchmarks/chunks.py --raw DIR", *flags])


def projected_speed(chunk: int, passes: int, gradients: str = "all", exact_end: int = 0) -> float:
    """How many times as fast as exact training this one would be on a GPU, by the roofs above: a pass reads keys and
    values once, forward and backward."""
    backward = passes if gradients == "all" else 1
    reads = READS / chunk * (passes + backward) / 2
    rows = max(WEIGHTS / chunk, PRODUCTS) + max(OTHERS / chunk, TRAFFIC)
    in_chunks = (reads + rows * (passes + 2 * backward) / 3) / (READS + WEIGHTS + OTHERS)
    return 1 / (exact_end / 100 + (1 - exact_end / 100) * in_chunks)


class Cell:
    """One training, which begins where its last call has saved its state.

    Attributes:
        update: how many updates are done
        seconds: that they took, in all calls
    """

    def __init__(self, args: Namespace, state: Path):
        self.args, self.state = args, state
        texts = {split: read(args.raw, split) for split in ("train", "valid")}
        self.words = vocabulary(texts["train"])
        self.splits = {split: self.dataset(split, text) for split, text in texts.items()}
        task = SimpleNamespace(target_dictionary=self.words, bytes_per_token=lambda split: None)
        self.criterion = StreamingLMCriterion(task)
        self.model = model(args, len(self.words))
        self.adam = torch.optim.Adam(self.model.parameters())
        self.memory, self.update, self.seconds = StreamMemory(), 0, 0.0
        if state.exists():
            self.load()

    def dataset(self, split: str, text: list[str]) -> StreamDataset:
        tokens = np.array([*map(self.words.index, text)])
        return StreamDataset(tokens, split, self.words.pad(), self.words.eos())

    def train(self) -> None:
        args, before, start = self.args, self.seconds, time.monotonic()
        exact_from = round(args.updates * (1 - args.exact_end / 100))
        samples = itertools.cycle(blocks(self.splits["train"], STREAMS))
        for sample in itertools.islice(samples, self.update, args.updates):
            exact = args.chunk == 1 or self.update >= exact_from
            use_engine(self.model, None if exact else args)
            self.step(sample, rate(self.update, args.updates, exact_from))
            self.update, self.seconds = self.update + 1, before + time.monotonic() - start
            if self.update % SAVE_EVERY == 0:
                self.save()

    def step(self, sample: dict, rate: float) -> None:
        self.adam.param_groups[0]["lr"] = rate
        nats, tokens, _ = self.criterion(self.model, with_memory(sample, self.memory))
        self.adam.zero_grad()
        (nats / tokens).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.adam.step()

    @torch.no_grad()
    def dev_bits(self) -> float:
        """Bits a character on the dev set, by the exact engine."""
        use_engine(self.model.eval(), None)
        nats, memory = 0.0, StreamMemory()
        for sample in blocks(self.splits["valid"], SCORED_STREAMS):
            nats += self.criterion(self.model, with_memory(sample, memory))[0].item()
        return nats / len(self.splits["valid"]) / math.log(2)

    def save(self) -> None:
        parts = {"model": self.model, "adam": self.adam, "memory": self.memory}
        state = {name: part.state_dict() for name, part in parts.items()}
        self.state.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.state, lambda file: torch.save(state | {"done": (self.update, self.seconds)}, file))

    def load(self) -> None:
        state = torch.load(self.state)
        for name, part in {"model": self.model, "adam": self.adam, "memory": self.memory}.items():
            part.load_state_dict(state[name])
        self.update, self.seconds = state["done"]


def read(folder: Path, split: str) -> list[str]:
    """The symbols of a split."""
    for name in (f"ptb.char.{split}.txt", f"ptb.char.{split}.txt.gz"):
        if (folder / name).exists():
            with opened(folder / name) as file:
                return file.read().decode().split()
    raise UserError(f"--raw {folder} has no ptb.char.{split}.txt; name the folder where it is.")


def vocabulary(text: list[str]) -> Dictionary:
    words = Dictionary()
    for symbol in sorted(set(text)):
        words.add_symbol(symbol)
    return words


def model(args: Namespace, words: int) -> torch.nn.Module:
    sizes = {"decoder_layers": args.layers, "decoder_embed_dim": args.width, "decoder_ffn_embed_dim": 4 * args.width}
    attention = {"decoder_attention_heads": HEADS, "attention_span": SPAN, "feedback_kv": "shared"}
    return build("feedback_lm_tiny", words, args.seed, **sizes, **attention)


def use_engine(model: torch.nn.Module, chunks: Namespace | None) -> None:
    """Train in chunks of these settings; None: exactly."""
    stack = model.decoder.body.stack
    stack.engine, stack.chunks = ENGINES["fast"], None
    if chunks is not None and chunks.gradients == "all":
        stack.chunks = Chunks(chunks.chunk, chunks.passes)
    elif chunks is not None:
        stack.engine = partial(ChunkedRecurrence, chunk=chunks.chunk, passes=chunks.passes, through=False)


def blocks(dataset: StreamDataset, streams: int) -> Iterator[dict]:
    """The samples of an epoch, in order."""
    for (block,) in dataset.blocks(streams, 1, BlockSchedule(BLOCK).cuts(dataset.longest(streams), epoch=1)):
        yield dataset[block]


def rate(update: int, updates: int, exact_from: int) -> float:
    """Of Adam: a warm-up and half a cosine; for an exact end half a cosine more, from half the rate."""
    if update < exact_from:
        return RATE * min(1, (update + 1) / WARM_UP) * half_cosine(update / exact_from)
    return RATE / 2 * half_cosine((update - exact_from) / (updates - exact_from))


def half_cosine(part: float) -> float:
    return (1 + math.cos(math.pi * part)) / 2


if __name__ == "__main__":
    error_hook.run(main, "chunks.py", status=2)
