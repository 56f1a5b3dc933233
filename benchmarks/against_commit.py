"""Speed of this tree against a commit of it, job by job: what a change made faster or slower.

    python benchmarks/against_commit.py 354a6d2
    python benchmarks/against_commit.py 354a6d2 --output benchmarks/against_commit.md
    python benchmarks/against_commit.py HEAD --jobs decoding agents        # what is not committed yet

A process with each tree makes the same jobs, out of the benchmarks of its own tree. Both run in turn (A B A B ...) and
the ratio is the median over the pairs, so that a drift of the machine's speed hits both.
"""

import functools
import importlib
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from functools import partial
from pathlib import Path

import page  # of the process's tree, as all that it imports
import timing
import torch

ROOT = Path(__file__).resolve().parent.parent
LANGUAGE = dict(layers=6, width=384, heads=4, block=64, span=256, batch=64, vocabulary=50, dropout=0.1)
TRANSLATION = dict(encoder_layers=6, embed_dim=512, ffn_dim=1024, heads=4, vocabulary=10000, max_tokens=2500)
AGENTS = dict(size="maze", environments=64, bptt=100, updates=2)  # until 30 November trees built no other size
SHARED = {"feedback_kv": "shared"}
SPANS = dict(attention_span=2048, adaptive_span=True, span_init=1 / 8)


def lm(kind: str, *arguments, **options):
    return partial(make, "lm_speed", LANGUAGE, kind, *arguments, **options)


def translation(kind: str, *arguments):
    return partial(make, "translation_speed", TRANSLATION, kind, *arguments)


def make(benchmark: str, sizes: dict, kind: str, *arguments, **options):
    """The job that a class of a benchmark of the process's tree makes of these sizes."""
    args = Namespace(**sizes, device="cpu", dtype="float32")
    return getattr(importlib.import_module(benchmark), kind)(args, *arguments, **options)


def acting(architecture: str):
    """A block of steps of an agent in its environments, without training."""
    training = make("agent_speed", AGENTS, "Training", architecture)

    def act() -> int:
        with torch.no_grad():
            training.actor.roll(training.model, training.bptt)
        return training.bptt * AGENTS["environments"]

    return act


GROUPS = {
    "training": {
        "Transformer over streams": lm("Training", "transformer"),
        "Feedback, shared keys and values": lm("Training", "feedback", **SHARED),
        "Feedback, keys and values per layer": lm("Training", "feedback", feedback_kv="per-layer"),
        "all-attention": lm("Training", "all-attention", persistent_vectors=1536),
        "adaptive spans, 256 of 2,048": lm("Training", "transformer", **SPANS),
        "translation, Feedback, 6 + 2 layers": translation("Training", "feedback", 2),
    },
    "decoding": {
        "language model, Feedback, batch 1": lm("Generation", "feedback", 1, 64, **SHARED),
        "language model, Feedback, batch 64": lm("Generation", "feedback", 64, 16, **SHARED),
        "beam search, Feedback, 6 + 2 layers, batch 1": translation("Generation", "feedback", 2, 1, 4),
        "beam search, Feedback, 6 + 2 layers, batch 32": translation("Generation", "feedback", 2, 32, 1),
    },
    "agents": {
        "Feedback agent, acting": partial(acting, "feedback_agent"),
        "Feedback agent, acting and training": partial(make, "agent_speed", AGENTS, "Training", "feedback_agent"),
        "Transformer agent, acting and training": partial(
            make, "agent_speed", AGENTS, "Training", "span_transformer_agent"
        ),
    },
}
COLUMNS = ["job", "commit, tokens/s", "now, tokens/s", "now / commit"]


def main() -> None:
    if sys.argv[1:2] == ["--work"]:  # a process of `Tree`
        return work(GROUPS[sys.argv[2]])
    parser = timing.options(__doc__, {}, dtypes=False)
    parser.add_argument("commit", help="what git calls a commit: a number, a tag, HEAD")
    parser.add_argument("--jobs", nargs="+", choices=GROUPS, default=list(GROUPS), help="(all)")
    parser.add_argument("--only", default="", metavar="WORDS", help="jobs with these words in their names (all)")
    args = parser.parse_args()
    verify = ["git", "rev-parse", "--verify", "--quiet", f"{args.commit}^{{commit}}"]
    if subprocess.run(verify, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
        parser.error(f"{args.commit} is no commit of this repository; name one, such as HEAD~1")
    groups = [group for group in args.jobs if any(args.only in name for name in GROUPS[group])]
    if not groups:
        parser.error(f"--only {args.only}: no job of {', '.join(args.jobs)} has these words in its name")
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", args.commit], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
        timing.main(args, [head, *(partial(section, folder=folder, group=group) for group in groups)])


def work(group: dict) -> None:
    """Run the jobs that standard input names, and write the tokens of each to standard output."""
    answers, sys.stdout = sys.stdout, sys.stderr
    torch.set_num_threads(os.cpu_count())
    made = functools.cache(lambda name: group[name]())
    for line in sys.stdin:
        print(made(line.strip())(), file=answers, flush=True)


def head(args: Namespace) -> str:
    commit = subprocess.run(
        ["git", "show", "-s", "--format=%h of %as", args.commit], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    return timing.head(
        args,
        "Speed against a commit",
        f"What became faster or slower since {commit}?",
        "Language models of 6 x 384, block 64, span 256, batch 64; translation of width 512; agents of width 256"
        f" in 64 environments (steps/s). Medians of {args.pairs} pairs of runs, in brackets the smallest and the"
        " largest ratio.",
    )


def section(args: Namespace, folder: str, group: str) -> str:
    before, now = Tree(Path(folder), group), Tree(ROOT, group)
    rows = []
    for name in (name for name in GROUPS[group] if args.only in name):
        both = timing.compare(partial(before.run, name), partial(now.run, name), args.pairs)
        rows.append([name, *both.speeds(), both.told()])
        print(*rows[-1], file=sys.stderr, flush=True)
    before.end(), now.end()
    return f"## {group.capitalize()}\n\n{page.table(COLUMNS, rows)}"


class Tree:
    """A process with the suite and the benchmarks of a folder, which runs jobs of a group by name."""

    def __init__(self, folder: Path, group: str):
        command = [sys.executable, "-P", __file__, "--work", group]  # -P: not with the modules beside this file
        paths = [str(folder), str(folder / "benchmarks"), str(folder / "benchmarks/shared")]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        )

    def run(self, name: str) -> int:
        """Run a job there, made at its first run, and return its tokens."""
        print(name, file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    main()
