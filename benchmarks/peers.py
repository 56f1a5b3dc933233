"""Speed of this suite beside packages that do the same work, or nearly: language models and beam search on a CPU.

    python benchmarks/peers.py --output benchmarks/peers.md
    python benchmarks/peers.py --tables feedback --shapes 4x256 --batches 16    # only some rows
    python benchmarks/peers.py --smoke                                          # small: shows that all of it runs

The packages are installed in the versions of PINNED, into a folder of their own; torch and fairseq stay as they are.
Two jobs run in turn in one process (A B A B ...) and the ratio is the median over the pairs, so that a drift of the
machine's speed hits both. Training is forward, backward and Adam step on random tokens, with a full memory; generation
is one step of every stream at a time; beam search is to a fixed length. A row says where the peer's work differs.
"""

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from math import ceil, inf
from pathlib import Path

import lm_speed
import page
import peer_models
import pinned
import skip_cross_head_speed
import timing
import torch
from cells import alone
from peer_models import SENTENCE, BeamSearch, CTranslate2, FeedbackPytorch, Labml, XTransformers
from torch.nn import functional as F

PEERS = "feedback-transformer-pytorch==0.0.11", "labml-nn==0.5.1", "x-transformers==2.31.10", "ctranslate2==4.8.5"
PINNED = (
    *PEERS,
    # what they import and the suite has not
    "einops==0.8.2",
    "einx==0.4.3",
    "frozendict==2.5.1",
    "labml==0.5.3",
    "loguru==0.7.3",
    "torch-einops-utils==0.2.0",
)
TRANSLATION = dict(encoder_layers=6, embed_dim=512, ffn_dim=1024, heads=4, vocabulary=10000)
SMOKE = dict(
    **dict(shapes=["2x32"], batches=[2], streams=[1, 2], sentences=[1, 2], block=8, span=64, pairs=1, dropout=0.0),
    translation=dict(encoder_layers=1, embed_dim=64, ffn_dim=64, heads=4, vocabulary=100),
)
GENERATION_PAIRS = 3  # times as many pairs as training: a job takes a second, and single ones scatter by a tenth
PEER = "peer, and how its work differs"
COLUMNS = ["job", PEER, "batch", "tokens/s, peer and ours", "ours / peer", "parameters, peer / ours"]


def options() -> argparse.ArgumentParser:
    parser = timing.options_of_memory(__doc__, dict(heads=4, block=64, span=256, vocabulary=50))
    parser.add_argument("--pairs", type=int, default=5, help="measured pairs of runs (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="(%(default)s)")
    numbers = dict(nargs="+", type=int, metavar="N")
    parser.add_argument("--shapes", nargs="+", default=["4x256", "6x384"], help="layers x width (%(default)s)")
    parser.add_argument("--batches", **numbers, default=[16, 64], help="of training (%(default)s)")
    parser.add_argument("--streams", **numbers, default=[1, 64], help="of generation (%(default)s)")
    parser.add_argument("--sentences", **numbers, default=[1, 32], help="of a batch of beam search (%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="of attention weights and activations (%(default)s)")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), help="parts of the table (all)")
    parser.add_argument("--site", type=Path, default="runs/peers/site", help="folder of the packages (%(default)s)")
    parser.add_argument("--smoke", action="store_true", help="the smallest sizes; the numbers mean nothing")
    parser.set_defaults(translation=TRANSLATION, device="cpu", dtype="float32")
    return parser


def main() -> None:
    args = options().parse_args()
    if args.smoke:
        vars(args).update(SMOKE)
    pinned.install(PINNED, args.site)
    torch.set_num_threads(args.threads)
    with alone():
        rows = [row for name in args.tables for row in TABLES[name](args)]
    told = page.table(COLUMNS, by_job(rows))
    page.show(f"{head(args)}\n\n{told}\n\n{timing.BOUNDS}", args.output)


def head(args: Namespace) -> str:
    beam = "{encoder_layers} + 2 layers of {embed_dim}, FFN {ffn_dim}, {heads} heads, vocabulary {vocabulary}"
    return timing.head(
        args,
        "Speed beside other packages",
        "How fast is this suite beside the packages that users may take for the same work?",
        f"{', '.join(PEERS)}. Language models of layers x width, {args.heads} heads, block {args.block}, span"
        f" {args.span}, vocabulary {args.vocabulary}, dropout {args.dropout}; Feedback has shared keys and values. Beam"
        f" search with {beam.format(**args.translation)}, beam 5, {SENTENCE} tokens. Medians of {args.pairs} pairs of"
        f" runs in training and of {GENERATION_PAIRS * args.pairs} in generation; in brackets the smallest and the"
        " largest ratio. Above 1 ours is faster.",
        variables="".join(f"{name}={value} " for name, value in os.environ.items() if name.startswith("MALLOC_")),
    )


Rows = Iterator[list[str]]


def feedback_rows(args: Namespace) -> Rows:
    for size in every(args, args.batches):
        ours = lm_speed.Training(size, "feedback", feedback_kv="shared")
        for kind, theirs in ((FeedbackPytorch, fitting(size)), (Labml, size)):
            note = "" if theirs.batch == size.batch else f" (the peer's {theirs.batch})"
            yield row("Feedback, training", size, Training(kind, theirs), ours, args.pairs, note)


def stream_rows(args: Namespace) -> Rows:
    """Models with a memory of hidden states. Of x-transformers' relative positions, rotary ones are the fastest, but
    with them the score of a memory key depends on the place in the text; then ALiBi is. Transformer-XL has no dropout,
    since ours would have it in more places."""
    for size in every(args, args.batches):
        vectors = 4 * size.width
        peer = Training(XTransformers, size, only_attn=True, attn_num_mem_kv=vectors, alibi_pos_bias=True)
        ours = lm_speed.Training(size, "all-attention", persistent_vectors=vectors)
        yield row("all-attention, training", size, peer, ours, args.pairs)
        size.dropout, size.updates = 0.0, 1
        given = dict(mem_len=size.span, initial_memory="zeros", decoder_normalize_before=True)
        ours = skip_cross_head_speed.Training(size, given)
        peer = Training(XTransformers, size, rotary_pos_emb=True)
        yield row("Transformer-XL, training", size, peer, ours, args.pairs)


def generation_rows(args: Namespace) -> Rows:
    for size in every(args, args.streams):
        steps = 64 if size.batch == 1 else 16
        ours = lm_speed.Generation(size, "feedback", size.batch, steps, feedback_kv="shared")
        for kind in (FeedbackPytorch, peer_models.Fairseq, peer_models.CachedXTransformers):
            peer = Generation(kind, size, steps)
            yield row("Feedback, generation", size, peer, ours, GENERATION_PAIRS * args.pairs)


def translation_rows(args: Namespace) -> Rows:
    shape = f"{args.translation['encoder_layers']} + 2"
    for batch in args.sentences:
        size = Namespace(**args.translation, device=args.device, dtype=args.dtype, batch=batch, shape=shape)
        search = partial(BeamSearch, size, depth=2, batch=batch, batches=8 if batch == 1 else 1)
        plain, ours, int8 = search("transformer"), search("feedback"), search("feedback", int8=True)
        peers = plain, *(CTranslate2(plain, kind, args.threads) for kind in ("float32", "int8"))
        for peer, own, job in zip(peers, (ours, ours, int8), ("Feedback", "Feedback", "Feedback with int8")):
            yield row(f"{job}, beam search", size, peer, own, GENERATION_PAIRS * args.pairs)


TABLES = {
    "feedback": feedback_rows,
    "streams": stream_rows,
    "generation": generation_rows,
    "translation": translation_rows,
}


def every(args: Namespace, batches: list[int]) -> Iterator[Namespace]:
    """The options with each shape and batch."""
    for shape in args.shapes:
        layers, width = map(int, shape.split("x"))
        size = dict(shape=f"{layers} x {width}", layers=layers, width=width)
        yield from (Namespace(**vars(args), **size, batch=batch) for batch in batches)


def fitting(size: Namespace) -> Namespace:
    """With half the batch, or a quarter, if feedback-transformer-pytorch would keep more than half of the machine's
    memory for its backward pass: for each token and layer it copies the keys and values of all memories."""
    size = Namespace(**vars(size))
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2
    while 4 * size.block * size.layers * 2 * size.batch * size.span * size.width > half:
        size.batch //= 2
    return size


def row(job: str, size: Namespace, peer, ours, pairs: int, note: str = "") -> list[str]:
    both = timing.compare(peer, ours, pairs)
    parameters = [sum(x.numel() for x in job.model.parameters()) for job in (peer, ours)]
    cells = [f"{job}, {size.shape}", f"{peer.name}: {peer.differs()}", f"{size.batch}{note}", ", ".join(both.speeds())]
    cells += [both.told(), f"{parameters[0] / parameters[1]:.2f}"]
    print(*cells, sep=" | ", file=sys.stderr, flush=True)
    return cells


def by_job(rows: list[list[str]]) -> list[list[str]]:
    """A row for each job and peer with as many parameters, with the figures of all batches."""
    found: dict[tuple[str, str, str], list[list[str]]] = {}
    for job, peer, *cells, parameters in rows:
        found.setdefault((job, peer, parameters), []).append(cells)
    return [[job, peer, *map("; ".join, zip(*cells)), parameters] for (job, peer, parameters), cells in found.items()]


class Training:
    """Updates of a peer on one block of random tokens, with a full memory; a call returns the number of tokens."""

    def __init__(self, kind, size: Namespace, **options):
        torch.manual_seed(1)
        self.peer = kind(size, **options)
        self.name, self.model = self.peer.name, self.peer.model.train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.tokens = torch.randint(4, size.vocabulary, (size.batch, size.block + 1))
        self.memory, self.losses = None, []
        with torch.no_grad():
            for _ in range(ceil(size.span / size.block)):
                self.loss()

    def loss(self) -> torch.Tensor:
        logits, self.memory = self.peer.read(self.tokens[:, :-1], self.memory)
        return F.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten())

    def __call__(self) -> int:
        loss = self.loss()
        timing.update(self.optimizer, loss)
        self.losses.append(loss.item())
        return self.tokens[:, 1:].numel()

    def differs(self) -> str:
        """After some calls. All updates see the same tokens, so a model that does not learn them does other work."""
        assert self.losses[-1] < self.losses[0] < inf, f"{self.name} does not learn: {self.losses}"
        return self.peer.differs


class Generation:
    """Steps of a peer after the same full memory in each call; a call returns the number of tokens."""

    @torch.no_grad()
    def __init__(self, kind, size: Namespace, steps: int):
        torch.manual_seed(1)
        self.peer = kind(size)
        self.name, self.model = self.peer.name, self.peer.model.eval()
        self.tokens = torch.randint(4, size.vocabulary, (size.batch, steps))
        self.memory = None
        for _ in range(size.span - steps // 2 * self.peer.grows):  # --span tokens, on average over the steps
            _, self.memory = self.peer.read(self.tokens[:, :1], self.memory)

    @torch.no_grad()
    def __call__(self) -> int:
        memory = self.memory
        for tokens in self.tokens.split(1, dim=1):
            logits, memory = self.peer.read(tokens, memory)
        assert logits.isfinite().all()
        return self.tokens.numel()

    def differs(self) -> str:
        return self.peer.differs


if __name__ == "__main__":
    main()
