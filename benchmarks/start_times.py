"""The time that commands take to start: CPU seconds of their processes, alone and with this suite.

    python benchmarks/start_times.py
    python benchmarks/start_times.py --output benchmarks/start_times.md

CPU seconds are those of the user and of the system: other work on the machine changes them little. Every command runs
once in each round, so that a drift of the machine's speed hits all; the median of the rounds counts.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import page
import torch
from paths import ROOT
from tqdm import tqdm

BIN = Path(sys.executable).parent
SUITE = ["--user-dir", str(ROOT / "fairseq_plugins")]
TINY = (
    "--arch transformer_tiny --optimizer adam --lr 0.001 --max-tokens 200 --max-update 1 --no-save --disable-validation"
    " --cpu --criterion cross_entropy"
)


def imports(what: str) -> list[str]:
    return [sys.executable, "-c", f"import {what}"]


def command(name: str, *arguments: str) -> list[str]:
    return [str(BIN / name), *arguments]


def starts(data: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Of each start the command without and with the suite."""
    train = [str(data), *TINY.split()]
    pairs = {
        "import fairseq.tasks": (imports("fairseq.tasks"), imports("fairseq_plugins, fairseq.tasks")),
        "fairseq-train to the first update": (
            command("fairseq-train", *train),
            command("fairseq-train", *train, *SUITE),
        ),
    }
    for name in ("train", "generate", "interactive", "eval-lm"):
        script = f"fairseq-{name}"
        pairs[f"{script} --help"] = (command(script, "--help"), command(script, *SUITE, "--help"))
    return {"import torch": (imports("torch"),) * 2, **pairs}


def prepare(folder: Path) -> Path:
    """Data of forty short sentences."""
    for language in ("de", "en"):
        (folder / f"text.{language}").write_text("".join(f"{number} a b c {number % 7}\n" for number in range(40)))
    text, data = str(folder / "text"), folder / "data"
    flags = "--source-lang de --target-lang en --joined-dictionary --trainpref".split()
    run(command("fairseq-preprocess", *flags, text, "--validpref", text, "--destdir", str(data)))
    return data


def run(arguments: list[str]) -> float:
    """CPU seconds of the command.

    Raises:
        subprocess.CalledProcessError: it failed
    """
    before = cpu_seconds()
    subprocess.run(arguments, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return cpu_seconds() - before


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="(%(default)s)")
    parser.add_argument("--output", type=Path, help="a page with the table; the text below it remains")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        jobs = starts(prepare(Path(folder)))
        seconds = {name: ([], []) for name in jobs}
        for _ in tqdm(range(args.rounds)):
            for name, pair in jobs.items():
                for found, arguments in zip(seconds[name], pair):
                    found.append(run(arguments))
    rows = [
        [name, *(f"{statistics.median(x):.2f} ({min(x):.2f} to {max(x):.2f})" for x in pair)]
        for name, pair in seconds.items()
    ]
    head = page.head(
        "Start of commands",
        "How much time does this suite add to the start of fairseq's commands?",
        f"{page.cpu()}, {page.python()}, torch {torch.__version__}. "
        f"CPU seconds, medians of {args.rounds} rounds; in brackets the smallest and the largest.",
        command="python benchmarks/start_times.py --output benchmarks/start_times.md",
    )
    page.show(f"{head}\n\n{page.table(['', 'fairseq alone', 'with this suite'], rows)}", args.output)


if __name__ == "__main__":
    main()
