"""Your own parallel text, in two languages, one sentence per line.

    python preprocess/parallel.py --raw DIR --source en --target fr --out data/mine
    python preprocess/parallel.py --raw corpus.en corpus.fr --source en --target fr --out data/mine
    python preprocess/parallel.py --raw memory.tmx --source en --target fr --out data/mine --test-pairs 500
    python preprocess/parallel.py --raw DIR --source en --target fr --out data/mine --bpe 8000    # Moses tokens

DIR holds train.en, train.fr, valid.en, valid.fr, test.en and test.fr. Text that is not split yet comes as two files, or
as one file of pairs: .tsv (two columns, or columns with their languages in the first row), .jsonl ({"en": "...", "fr":
"..."}), .tmx (a translation memory), or .zip as OPUS has it. It is split at random, always in the same way, and no
source sentence is in two splits. All text is UTF-8 and may be compressed: .gz, .bz2, .xz or .zst. Quotation marks of a
.tsv are text, unless a spreadsheet has put all of them: "a ""b"" c" is then a "b" c.

Spaces, tabs and control characters become single spaces; everything else comes back from a model as it was, in any
language. Byte pair encoding of Moses tokens (--bpe N) cannot promise that, and says what it costs. prepared_text.json
in OUT/bin says how the text was prepared, so that later commands need no flags for it; these commands are printed at
the end. For fewer than 100,000 training pairs they train a small model.
"""

import argparse
import re
from functools import partial
from pathlib import Path

from lib import pairs, subwords, translation
from lib.steps import Steps, UserError, command_line

from fairseq_plugins.files.steps import STAMPS
from fairseq_plugins.options.ranges import number, whole


def main():
    args = options().parse_args()
    if not args.raw:
        raise UserError("--raw is missing: give the folder or the files that hold your text.")
    for flag, language in (("--source", args.source), ("--target", args.target)):
        if not re.fullmatch(r"[\w.@-]+", language):
            raise UserError(f"{flag} '{language}' is no suffix of a file: give one such as en.")
    if args.source == args.target:
        raise UserError(f"--source and --target are both {args.source}; name the two languages.")
    subwords.check(args)
    steps = Steps(args.out)
    layouts = {split: [[split + ".{language}"]] for split in translation.SPLITS}
    raw = folder(args, steps)
    translation.prepare_parallel(args, args.source, args.target, layouts, raw, steps, lower=args.lower)


def options() -> argparse.ArgumentParser:
    parser = translation.parallel_parser(__doc__, 8000, pieces=True, several=True)
    parser.add_argument("--source", required=True, metavar="LANGUAGE", help="suffix of the source files")
    parser.add_argument("--target", required=True, metavar="LANGUAGE", help="suffix of the target files")
    parser.add_argument("--lower", action="store_true", help="lower-case all text")
    for split in ("valid", "test"):
        size = parser.add_mutually_exclusive_group()
        size.add_argument(
            f"--{split}-pairs", type=whole(1), metavar="N", help=f"pairs for {split}, of text that is not split yet"
        )
        size.add_argument(
            f"--{split}-share",
            type=number(0, 1, below=True),
            metavar="R",
            help=f"part of the pairs for {split} (0.05, but at most {pairs.MOST} pairs)",
        )
    return parser


def folder(args, steps: Steps) -> Path:
    """The folder with train, valid and test, made of files of pairs if the user has named such."""
    sizes = {f"--{split}-{unit}": getattr(args, f"{split}_{unit}") for split in ("valid", "test") for unit in UNITS}
    if len(args.raw) == 1 and not args.raw[0].is_file():
        if given := [flag for flag, value in sizes.items() if value is not None]:
            raise UserError(f"{given[0]} is for files of pairs, but --raw {args.raw[0]} is a folder: leave it out.")
        return args.raw[0]
    for split in translation.SPLITS:
        if getattr(args, f"{split}_prefix"):
            raise UserError(f"--{split}-prefix is for a folder, but --raw {args.raw[0]} is a file: leave it out.")
    read = pairs.reader(args.raw, args.source, args.target)
    outputs = [
        args.out / "raw" / f"{split}.{language}"
        for split in translation.SPLITS
        for language in (args.source, args.target)
    ]
    valid, test = (pairs.Size(*(sizes[f"--{split}-{unit}"] for unit in UNITS)) for split in ("valid", "test"))
    settings = {"languages": [args.source, args.target], "valid": valid, "test": test}
    if not (args.out / STAMPS / "split.json").exists() and (there := [path for path in outputs if path.exists()]):
        raise UserError(f"--out {args.out}: {there[0]} would be written over: choose another folder, or move the file.")
    steps.run("split", args.raw, outputs, settings, partial(pairs.split, read, valid, test))
    return args.out / "raw"


UNITS = ("pairs", "share")

if __name__ == "__main__":
    command_line(main)
