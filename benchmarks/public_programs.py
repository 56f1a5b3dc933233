"""Train Feedback on programs by the papers' public code and by this suite, from the same weights, on the same blocks.

    git clone https://github.com/facebookresearch/transformer-sequential PUBLIC    # this is of commit 9650fc9
    python benchmarks/public_programs.py PUBLIC --updates 2000 --out runs/public_programs
    python benchmarks/public_programs.py PUBLIC --updates 50 --dtype float64 --out runs/public_programs_exact

*Public* is its model in its own loop over tokens, with its loss. *Ours* has the same weights and normalises the
memories of earlier blocks twice, as the public code does; *ours, once* does not. Each has Adam of its own. All read 64
streams of fresh programs of 10 statements with 3 variables in blocks of 64, without dropout. Prints the loss (nats) and
the labels right (%) every 100 updates, and by the number of variables in the last 100; OUT/curve.jsonl has each update.
"""

import importlib
import json
import math
import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import paths  # noqa: F401  finds the suite
import torch
from page import table
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from fairseq_plugins.conversion import transformer_sequential
from fairseq_plugins.errors import UserError
from fairseq_plugins.modules import FeedbackLayerConfig, FeedbackStream, MemoryWindow
from fairseq_plugins.synthetic.programs import kind
from fairseq_plugins.tools.lib.command import Command, tell

STREAMS, BLOCK, STATEMENTS, SPAN, HEADS = 64, 64, 10, 100, 2
RATE, WARM_UP, CLIP = 0.001, 100, 0.1
NONE = -100  # no label: cross_entropy's default
KIND = kind("xyz")
NUMBERS = {symbol: number for number, symbol in enumerate(KIND.vocabulary)}


def main(words: list[str] | None = None) -> None:
    args = options().parse(words)
    if not (args.public / "models/feedback.py").is_file():
        raise UserError(f"{args.public} has no models/feedback.py; give a clone of transformer-sequential.")
    torch.set_num_threads(1)
    torch.set_default_dtype(getattr(torch, args.dtype))
    torch.manual_seed(args.seed)
    public = Public(args)
    models = {"public": public, "ours": Ours(public, args, twice=True), "ours, once": Ours(public, args, twice=False)}
    trainings = {name: Training(model) for name, model in models.items()}
    args.out.mkdir(parents=True, exist_ok=True)
    streams, rows = blocks(args.seed), []
    with open(args.out / "curve.jsonl", "w") as file:
        for _ in tqdm(range(args.updates)):
            block = next(streams)
            rows.append({name: training.update(*block) for name, training in trainings.items()})
            print(json.dumps(rows[-1]), file=file, flush=True)
    show(rows)


def options() -> Command:
    parser = Command(__doc__)
    parser.add_argument("public", type=Path, metavar="PUBLIC", help="a clone of the public code")
    parser.option("--updates", int, 2000, "N", "updates")
    parser.option("--layers", int, 2, "N", "layers")
    parser.option("--width", int, 64, "N", "width; the feed-forward layers have four times as much")
    parser.option("--seed", int, 1, "N", "of the weights and the programs")
    parser.option("--dtype", str, "float32", "TYPE", "of all numbers", choices=["float32", "float64"])
    parser.option("--out", Path, Path("runs/public_programs"), "DIR", "for the curve")
    return parser


def blocks(seed: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Tokens, labels and numbers of variables assigned so far, all [STREAMS, BLOCK]."""
    streams = [symbols(Random(1000 * seed + number)) for number in range(STREAMS)]
    while True:
        read = [[next(stream) for _ in range(BLOCK)] for stream in streams]
        tokens, labels, variables = torch.tensor(read).unbind(2)
        yield tokens, labels, variables


def symbols(draw: Random) -> Iterator[tuple[int, int, int]]:
    """Of one endless stream of programs."""
    while True:
        episode = KIND.draw(draw, STATEMENTS)
        for symbol, label, group in zip(*episode, KIND.groups(episode.symbols)):
            yield NUMBERS[symbol], NONE if label is None else NUMBERS[label], int(group)


class Public(nn.Module):
    """The public code's model. In its loop, gradients of a buffer are an attribute of the node: today's torch refuses
    them as a saved tensor, since they are changed in place."""

    def __init__(self, args: Namespace):
        super().__init__()
        sys.path.insert(0, str(args.public))
        feedback = importlib.import_module("models.feedback")
        feedback.BufferWrite = BufferWrite
        self.model = feedback.FeedbackTransformer(
            Namespace(
                hid_sz=args.width, inner_hid_sz=4 * args.width, nlayers=args.layers, nheads=HEADS,
                head_dim=args.width // HEADS, mem_sz=BLOCK, attn_lim=SPAN, vocab_sz=len(NUMBERS), dropout=0.0,
                feedback=True, pre_norm=True, share_proj_kv=False, adapt_span=False, adapt_span_cache=False,
                device="cpu",
            )
        )  # fmt: skip

    def forward(self, tokens: Tensor, memory: list[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        """Tokens [B, M] -> log-probabilities [B, M, V], and the memory."""
        memory = self.model.init_hid_cache(len(tokens)) if memory is None else memory
        log_probs, memory, _ = self.model(tokens, memory)
        return log_probs, [each.detach() for each in memory]


class BufferWrite(torch.autograd.Function):
    """New steps go into a buffer -> its windows that end with them."""

    @staticmethod
    def forward(ctx, new, buffer, first, gradients, widths):
        end = first + len(new)
        buffer[first:end] = new
        ctx.place, ctx.gradients, ctx.widths = (first, end), gradients, widths
        return tuple(buffer.new_empty(0).set_(buffer[end - width : end]) for width in widths)

    @staticmethod
    def backward(ctx, *d_windows):
        first, end = ctx.place
        for width, d_window in zip(ctx.widths, d_windows):
            ctx.gradients[end - width : end] += d_window
        return ctx.gradients[first:end].clone(), None, None, None, None


class Ours(nn.Module):
    """The same model of this suite."""

    def __init__(self, public: Public, args: Namespace, twice: bool):
        super().__init__()
        sizes = dict(embed_dim=args.width, ffn_dim=4 * args.width, heads=HEADS)
        config = FeedbackLayerConfig(**sizes, attention_bias=False, pre_norm=True)
        window = MemoryWindow(SPAN, args.layers, HEADS, config.head_dim)
        self.embed = nn.Embedding(len(NUMBERS), args.width)
        self.body = FeedbackStream(config, args.layers, window, kv="per-layer", normalise_twice=twice)
        self.output = nn.Linear(args.width, len(NUMBERS))
        converted = transformer_sequential.convert({"model": public.model.state_dict()}, Namespace(span_ramp=None))
        self.load_state_dict(converted.state)

    def forward(self, tokens, memory):
        y, memory = self.body(self.embed(tokens), memory)
        return self.output(y).log_softmax(-1), memory


class Training:
    def __init__(self, model: nn.Module):
        self.model, self.memory = model, None
        self.optimizer = torch.optim.Adam(model.parameters(), RATE)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda n: min(1, (n + 1) / WARM_UP))

    def update(self, tokens: Tensor, labels: Tensor, variables: Tensor) -> dict:
        """An update by one block -> its loss before, and of each group the labels that are right and all."""
        log_probs, self.memory = self.model(tokens, self.memory)
        loss = F.nll_loss(log_probs.flatten(0, 1), labels.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.schedule.step()
        right, labelled = log_probs.argmax(-1) == labels, labels != NONE
        groups = {number: labelled & (variables == number) for number in (1, 2, 3)}
        counts = {number: [int(right[places].sum()), int(places.sum())] for number, places in groups.items()}
        return {"loss": loss.item(), "right": counts}


def show(rows: list[dict]) -> None:
    """A table of means over 100 updates each, and how far the losses of public and ours are apart."""
    for first in range(0, 300, 100):
        apart = [abs(row["public"]["loss"] - row["ours"]["loss"]) for row in rows[first : first + 100]]
        if apart:
            tell(f"updates {first + 1} to {first + len(apart)}: losses of public and ours differ by {max(apart):.1e}")
    lines = []
    for last in range(100, len(rows) + 1, 100):
        part = rows[last - 100 : last]
        found = ([mean_loss(part, name), labels_right(part, name)] for name in rows[0])
        lines.append([f"{last}", *(f"{loss:.3f}; {right['all']:.1f}" for loss, right in found)])
    print(table(["updates", *(f"{name}: loss; right, %" for name in rows[0])], lines))
    for name in rows[0]:
        tell(f"{name}, the last 100 updates, by variables: {labels_right(rows[-100:], name)}")


def mean_loss(rows: list[dict], name: str) -> float:
    return math.fsum(row[name]["loss"] for row in rows) / len(rows)


def labels_right(rows: list[dict], name: str) -> dict[str, float]:
    """In per cent, of all and by the number of variables."""
    right, labels = defaultdict(int), defaultdict(int)
    for row in rows:
        for group, (good, number) in row[name]["right"].items():
            for key in ("all", f"{group}"):
                right[key] += good
                labels[key] += number
    return {key: round(100 * right[key] / labels[key], 1) for key in labels if labels[key]}


if __name__ == "__main__":
    main()
