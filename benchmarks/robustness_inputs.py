"""The verdict on every number, right or wrong, that an option of fairseq's commands can be given.

    OMP_NUM_THREADS=1 python benchmarks/robustness_inputs.py [PART ...]
    python benchmarks/robustness_inputs.py --count

Each value is given to a real command by itself: those that do not fit (of the wrong type, nan, inf, just below and just
above), and the least and the largest that do. A PART is the name of a command, a task, a model or an optimizer, such
as generate or adam; by default all are tried.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from paths import ROOT

# isort: split
import forks
import inputs
from bases import Bases, is_tried
from warm import Warm


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--count", action="store_true", help="count the values that the tests try, and run nothing")
    args = parser.parse_args()
    if args.count:
        return count()
    verdicts = Counter()
    with tempfile.TemporaryDirectory() as folder, forks.environment(Path(folder) / "venv", Path(sys.prefix)) as venv:
        (data := Path(folder) / "data").mkdir()
        bases = Bases(Warm(venv / "bin"), data, ROOT / "fairseq_plugins")
        for part, options in inputs.numeric_options().items():
            if is_tried(part) and (part.name in args.parts or not args.parts):
                verdicts += try_part(bases, part, options)
    counts = {"refused with a sentence": verdicts.pop("refused", 0), "honoured": verdicts.pop("honoured", 0)}
    counts |= {"traceback": 0, "signal": 0} | dict(verdicts)
    print(f"tried {sum(counts.values())}, {', '.join(f'{verdict} {number}' for verdict, number in counts.items())}")


def count() -> None:
    """Print the numbers of options and values."""
    options = [(part, action.dest) for part, of_part in inputs.numeric_options().items() for action in of_part.values()]
    wrong = sum(len(inputs.wrong_values(name)) for _, name in options)
    right = sum(len(inputs.right_values(name)) for _, name in options)
    tried = sum(len(inputs.right_values(name)) for part, name in options if is_tried(part))
    print(f"{len(options)} options: {wrong} values that do not fit; {right} that just fit, {tried} in real commands")


def try_part(bases: Bases, part: inputs.Part, options: dict) -> Counter:
    """The count of each verdict; faults are printed."""
    verdicts = Counter()
    for flag, action in options.items():
        for value in inputs.wrong_values(action.dest) + inputs.right_values(action.dest):
            done = bases.try_options(part, [f"{flag}={value}"])
            verdict = done.verdict.split()[0] if done.verdict.startswith("signal") else done.verdict
            verdicts[verdict] += 1
            if verdict not in ("refused", "honoured"):
                print(f"{part.name} {flag}={value}: {done.verdict}\n{done.output[-500:]}", flush=True)
    return verdicts


if __name__ == "__main__":
    main()
