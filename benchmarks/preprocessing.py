"""Time and memory of the preparation of parallel text, by the number of pairs.

    python benchmarks/preprocessing.py --pairs 100000 1000000
    python benchmarks/preprocessing.py --pairs 1000000 4000000 --folder runs/preprocessing     # it may be stopped

Generates a corpus of so many pairs, 25 words a line on average, of 300,000 words a language whose frequencies follow
Zipf's law, with punctuation, numbers and other marks; then runs preprocess/parallel.py with 32,000 merges on it. A
preparation that was stopped goes on in the next call. Memory is the sum of all its processes, the highest that is seen
in a look every second.
"""

import argparse
import bisect
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import page
from paths import ROOT

LANGUAGES = ("en", "de")
WORDS, LENGTH, HELD_OUT = 300_000, 25, 2000
MARKS = [",", ",", ".", ":", "(2)", "5,300", '"so"', "don't", "U.S.", "http://a.b/c?x=1", "%", "-", "&", "“Ja”"]
STEP = re.compile(r"^([\w.-]+): .* \((\d+\.\d) s\)$")


class Language:
    """Makes sentences."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.words = [self.word(rank) for rank in range(WORDS)]
        self.sums = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(WORDS)))

    def word(self, rank: int) -> str:
        syllables = 1 + min(6, int(self.draw.expovariate(0.45)) + (rank > 100))
        return "".join(self.draw.choice("aeiouäöü") + self.draw.choice("bcdfghklmnprstvwz") for _ in range(syllables))

    def sentence(self) -> str:
        length = max(1, int(self.draw.gauss(LENGTH, LENGTH / 3)))
        words = [self.words[bisect.bisect(self.sums, self.draw.random() * self.sums[-1])] for _ in range(length)]
        for _ in range(length // 8):
            words.insert(self.draw.randrange(len(words) + 1), self.draw.choice(MARKS))
        return " ".join(words).capitalize() + "."


def generate(folder: Path, pairs: int) -> None:
    """The corpus, unless it is there."""
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(LANGUAGES):
        language = Language(seed)
        for split, lines in (("train", pairs), ("valid", HELD_OUT), ("test", HELD_OUT)):
            with open(folder / f"{split}.{name}", "w", encoding="utf-8") as file:
                file.writelines(language.sentence() + "\n" for _ in range(lines))
    (folder / "done").touch()


class Memory(threading.Thread):
    """Watches the memory of a process and of all processes that it starts.

    Attributes:
        most: MiB, the most that was seen
    """

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self.pid, self.most = pid, 0.0

    def run(self) -> None:
        while resident := sum(map(mebibytes, family(self.pid))):
            self.most = max(self.most, resident)
            time.sleep(1)


def family(pid: int) -> list[int]:
    """The process and those that it has started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        return []
    return [pid, *itertools.chain.from_iterable(family(int(child)) for child in children)]


def mebibytes(pid: int) -> float:
    """Memory of the process; shared memory is divided among its processes."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def prepare(folder: Path, pairs: int) -> dict:
    """Seconds of each group of steps, all CPU seconds, and MiB."""
    command = [sys.executable, "preprocess/parallel.py", "--raw", str(folder / "raw"), "--out", str(folder / "out")]
    before = os.times()
    process = subprocess.Popen(
        [*command, "--source", LANGUAGES[0], "--target", LANGUAGES[1], "--bpe", "32000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    memory = Memory(process.pid)
    memory.start()
    seconds: dict[str, float] = {}
    for line in process.stdout:
        if found := STEP.match(line):
            step = found[1].split("-")[0]
            seconds[step] = round(seconds.get(step, 0) + float(found[2]), 1)
    if process.wait():
        raise SystemExit(f"{' '.join(command)} failed.")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"pairs": pairs, **seconds, "CPU seconds": round(cpu), "MiB": round(memory.most)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000])
    parser.add_argument("--folder", type=Path, help="for corpora and rows (default: a temporary one)")
    parser.add_argument("--output", type=Path, help="a page with the table; the text below it remains")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        rows = [row(folder / str(pairs), pairs) for pairs in args.pairs]
    page.show(told(rows), args.output)


def row(folder: Path, pairs: int) -> dict:
    """The row of a corpus, which is measured once."""
    file = folder / "row.json"
    if not file.exists():
        generate(folder / "raw", pairs)
        file.write_text(json.dumps(prepare(folder, pairs)))
    return json.loads(file.read_text())


def told(rows: list[dict]) -> str:
    steps = dict.fromkeys(step for each in rows for step in each)
    header, *lines = ([step, *(str(each.get(step, "")) for each in rows)] for step in steps)
    head = page.head(
        "Preparing parallel text",
        "How much time and memory does `preprocess/parallel.py` take, by step?",
        f"{page.cpu()}, {os.cpu_count()} cores, {page.python()}. "
        "The table has seconds of each group of steps, and CPU seconds and memory of all.",
        command=f"python benchmarks/preprocessing.py --pairs {' '.join(str(each['pairs']) for each in rows)}",
    )
    return f"{head}\n\n{page.table(header, lines)}"


if __name__ == "__main__":
    main()
