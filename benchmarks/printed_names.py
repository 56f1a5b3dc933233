"""Do models of the synthetic programs read the name that is printed?

    python benchmarks/printed_names.py guess --names xyz      # the score of all values without the name, in per cent
    python benchmarks/printed_names.py swap CHECKPOINT        # labels right, and labels right with other names printed
    python benchmarks/printed_names.py dense --out DIR        # text for preprocess/labelled_text.py

The first two show all labels, and those by the number of variables assigned so far. ``guess`` draws 20,000 programs of
10 statements and answers with the most frequent value. ``swap`` prints y for x, z for y and x for z in the test
programs of 3 variables and leaves their labels: who reads the name is wrong then, but for variables of equal value.
``dense`` writes programs of 10 statements whose training text has a label at every name of a variable that has a value:
this value before the statement, and at the ";" that after it. Validation and test have those of prints only.
"""

import argparse
from collections import Counter
from pathlib import Path
from random import Random

import paths  # noqa: F401  finds the suite

from fairseq_plugins.synthetic.programs import statement, variables_assigned
from fairseq_plugins.synthetic.synthetic_stream import KINDS
from fairseq_plugins.tools.label_accuracy import by_group, groups_of, labels_right
from fairseq_plugins.tools.lib.load import load


def guess(names: str) -> dict:
    draw, right, prints = Random(1), Counter(), Counter()
    for _ in range(20000):
        state, symbols = {}, []
        for _ in range(10):
            symbols += statement(draw, names, ("<", ">"), state)
            if symbols[-3] == "print":
                most = Counter(state.values()).most_common(1)[0][1]
                for group in ("all", variables_assigned(symbols)[-1]):
                    right[group] += most / len(state)
                    prints[group] += 1
    return {group: round(100 * right[group] / prints[group], 1) for group in sorted(prints)}


def swap(checkpoint: Path) -> None:
    model, _, task = load(checkpoint, {}, cpu=True)
    task.load_dataset("test")
    dataset = task.dataset("test")
    labelled, groups = dataset.labels != dataset.pad, groups_of(dataset, task, KINDS["programs-3"])
    print(by_group(labels_right(model, task, dataset, 32), labelled, groups))
    x, y, z = (task.source_dictionary.index(name) for name in "xyz")
    names = labelled.nonzero()[0] - 1
    dataset.tokens[names] = [{x: y, y: z, z: x}[name] for name in dataset.tokens[names]]
    print(by_group(labels_right(model, task, dataset, 32), labelled, groups))


def dense(out: Path, names: str, statements: int, programs: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for seed, (split, count) in enumerate({"train": programs, "valid": 1000, "test": 1000}.items(), start=1):
        draw = Random(seed)
        pairs = [labelled(draw, names, statements, everywhere=split == "train") for _ in range(count)]
        for suffix, lines in zip(("txt", "labels"), zip(*pairs)):
            (out / f"{split}.{suffix}").write_text("".join(f"{' '.join(line)}\n" for line in lines))


def labelled(draw: Random, names: str, statements: int, everywhere: bool) -> tuple[list[str], list[str]]:
    """A program and its labels: those of prints, or everywhere."""
    state, symbols, labels = {}, [], []
    for _ in range(statements):
        before, words = dict(state), statement(draw, names, ("<", ">"), state)
        own = [str(before.get(word, "_")) if everywhere else "_" for word in words]
        if everywhere or words[0] == "print":
            changed = [word for word in words if word in names][-1]
            own[-1] = str(state.get(changed, "_"))
        symbols, labels = symbols + words, labels + own
    return [*symbols, "END"], [*labels, "_"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("guess").add_argument("--names", default="xyz", help="of the variables (%(default)s)")
    parts.add_parser("swap").add_argument("checkpoint", type=Path)
    text = parts.add_parser("dense")
    text.add_argument("--out", type=Path, required=True, metavar="DIR", help="for train, valid and test")
    text.add_argument("--names", default="xyz", help="of the variables (%(default)s)")
    text.add_argument("--statements", type=int, default=10, help="of a program (%(default)s)")
    text.add_argument("--programs", type=int, default=100000, help="of train (%(default)s)")
    args = parser.parse_args()
    if args.part == "guess":
        print(guess(args.names))
    elif args.part == "dense":
        dense(args.out, args.names, args.statements, args.programs)
    else:
        swap(args.checkpoint)


if __name__ == "__main__":
    main()
