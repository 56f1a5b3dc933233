"""Your own text with a label for each symbol, for a model that reads the text and says the labels.

    python preprocess/labelled_text.py --raw DIR --out data/mine

DIR has pairs of files in UTF-8: train.txt and train.labels, valid.txt and valid.labels, and, if there is a test set,
test.txt and test.labels. White space separates symbols and labels. The label of a symbol is at the same
place of the same line, and _ (or another word: --omit-label of fairseq-train) is there where a symbol has none. A line
is an episode, such as a program. Empty lines are left out.

    OUT/text     the splits and their labels, with single spaces
    OUT/bin      binarised, with one dictionary for symbols and labels, of train's: fairseq-train OUT/bin
                 --task labelled_stream

The commands that train and evaluate are printed at the end.
"""

from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

from lib import binarise, language_model, locate, next_commands, options, raw_text
from lib.steps import Steps, UserError, command_line

RESERVED = {"<s>", "<pad>", "</s>"}  # fairseq's, which mean something else to it
UNKNOWN = "<unk>"  # stands for every label that train lacks, which then would count as right


def main():
    args = options.parser(__doc__, "folder with the pairs of files", required=True).parse_args()
    options.check_raw(args.raw)
    pairs, steps = find(args.raw), Steps(args.out)
    steps.forget(*(f"text-{split}" for split in language_model.SPLITS if split not in pairs))
    texts = []
    for split, files in pairs.items():
        outputs = [steps.out / "text" / name for name in (split, f"{split}.labels")]
        steps.run(f"text-{split}", files, outputs, {}, partial(write_pair, *files))
        texts += outputs
    work = partial(language_model.binarise_texts, texts, 2, binarise.NONE, None, {})  # 2: train and its labels
    steps.run("binarise", texts, [steps.out / "bin"], {}, work)
    print(next_commands.labelled_text(args.out, list(pairs)[-1]), flush=True)


def find(raw: Path) -> dict[str, list[Path]]:
    """The text and the labels of each split.

    Raises:
        UserError: one of them is missing
    """
    found = {}
    for split in language_model.SPLITS:
        names = [f"{split}.txt", f"{split}.labels"]
        files = [locate.file(raw, name) for name in names]
        if missing := [name for name, file in zip(names, files) if not file]:
            if split == "test" and missing == names:
                continue
            raise UserError(f"--raw {raw} has no {missing[0]}: put it there (it may be compressed).")
        found[split] = files
    return found


def write_pair(text: Path, labels: Path, *outputs: Path) -> str:
    symbols = 0

    def pairs():
        nonlocal symbols
        for pair in read_pairs(text, labels):
            symbols += len(pair[0])
            yield 0, map(" ".join, pair)

    lines = raw_text.write_pairs(pairs(), outputs).total()
    if not symbols:
        raise UserError(f"{text} has no symbols: put the text there.")
    return f"{text.name} and {labels.name}: {lines} lines, {symbols} symbols with as many labels"


def read_pairs(text: Path, labels: Path) -> Iterator[tuple[list[str], list[str]]]:
    """The symbols and the labels of each line that is not empty.

    Raises:
        UserError: a line has not as many labels as symbols, or a word of fairseq's own
    """
    for number, lines in enumerate(zip_longest(*map(raw_text.read_lines, (text, labels))), 1):
        if None in lines:
            shorter, longer = (text, labels) if lines[0] is None else (labels, text)
            raise UserError(f"{shorter} ends before line {number} of {longer}: give both as many lines.")
        words, marks = (line.split() for line in lines)
        if len(words) != len(marks):
            raise UserError(
                f"{labels} has {len(marks)} labels in line {number}, {text} {len(words)} symbols: give each symbol one"
                " label, or _ if it has none."
            )
        for file, found, reserved in ((text, words, RESERVED), (labels, marks, RESERVED | {UNKNOWN})):
            if wrong := sorted(reserved.intersection(found)):
                raise UserError(f"{file} has {wrong[0]} in line {number}, which fairseq keeps for itself: rename it.")
        if words:
            yield words, marks


if __name__ == "__main__":
    command_line(main)
