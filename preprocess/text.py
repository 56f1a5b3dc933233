"""Your own text, for a language model.

    python preprocess/text.py --raw DIR --out data/mine                              # bytes
    python preprocess/text.py --raw book1.txt book2.txt.gz --level sentencepiece --out data/mine
    python preprocess/text.py --raw DIR --level word --min-count 3 --split-at document --out data/mine

The text is UTF-8, plain, .gz, .bz2, .xz or .zst. Files named train, valid and test, with any ending, are the splits; so
are folders of these names. (A test set may be missing.) Other files are one text, in the order given, those of a folder
in the order of their names: its last part is for testing (--test-share), the part before for validation
(--valid-share). The same command makes the same splits again.

    OUT/raw      the splits as raw text: train, valid, test
    OUT/text     symbols between spaces
    OUT/bin      binarised, with prepared_text.json, which says how the text was prepared

--level chooses the kind of symbols; the newline is always one, too:

    byte             a byte. Any file will do, and nothing is ever unknown
    char             a character
    word             a word between white space, if it occurs --min-count times in train; else it is unknown
    bpe              a piece of a word; byte pair encoding, learned from train
    sentencepiece    a piece of text, spaces included; learned from train. Nothing is ever unknown

--model takes a SentencePiece model or byte pair codes of your own, and tells how they suit the text.

word and bpe do not tell one space from several, or from a tab. The others give back the text exactly. The commands that
train, evaluate and sample are printed at the end. Memory holds the dictionary, and at most 20 MB of the text for bpe
and sentencepiece to learn from; the rest stays on disk.
"""

import argparse
from functools import partial
from pathlib import Path

from lib import language_model, next_commands, options, own_model, splits, subwords, symbols
from lib.steps import Steps, UserError, add_workers, command_line

from fairseq_plugins.options.ranges import number, whole
from fairseq_plugins.text.levels import LEVELS, NUMBERS
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.reading import read_text
from fairseq_plugins.text.tokenisers import Plain

MADE = ("raw", "text", "bin")  # folders in --out
STREAM = 512  # bytes of a split that make a stream of it worth while


def main():
    args = parser().parse_args()
    check(args)
    steps, files = Steps(args.out), splits.find(args.raw)
    raw = write_raw(args, steps, files)
    steps.forget(*(f"symbols-{split}" for split in splits.SPLITS if split not in raw))
    if args.level not in symbols.LEARNED:
        steps.forget("learn")
    prepared = learn(args, steps, raw)
    for split, path in raw.items():
        outputs = [steps.out / "text" / split]
        settings = {"level": args.level, "lower": args.lower}
        work = partial(symbols.encode, prepared, path, args.workers)
        steps.run(f"symbols-{split}", [path, *prepared.files], outputs, settings, work)
    dictionary = {
        "always": always(args.level, prepared, steps.out / "text" / "train"),
        "min_count": args.min_count or 1,
    }
    language_model.prepare_bin(steps, prepared, splits=tuple(raw), **dictionary)
    tell(args, prepared, raw)


def parser() -> argparse.ArgumentParser:
    parser = options.parser(__doc__, "files and folders", nargs="+", required=True, metavar="PATH")
    parser.add_argument("--level", choices=LEVELS, help="the kind of symbols (byte)")
    for split in ("valid", "test"):
        parser.add_argument(
            f"--{split}-share",
            type=number(0, 1, below=True),
            metavar="R",
            help=f"part of the text for {split}, if no files are named {split} (0.05)",
        )
    parser.add_argument(
        "--split-at", choices=splits.BORDERS, help="where to cut; a document ends at an empty line or file's end (line)"
    )
    parser.add_argument("--symbols", type=whole(1), metavar="N", help="most symbols of bpe and sentencepiece (8000)")
    own_model.add_option(parser)
    parser.add_argument(
        "--min-count", type=whole(1), metavar="N", help="times that a word has to occur in train to be known (2)"
    )
    parser.add_argument("--lower", action="store_true", help="lower-case all text")
    add_workers(parser)
    return parser


def check(args) -> None:
    """Fill in defaults that depend on other options.

    Raises:
        UserError: an option has no meaning beside the others
    """
    if args.model:
        own_model.check(args)
    args.level = args.level or "byte"
    learned = args.level in symbols.LEARNED
    if args.symbols and not learned:
        raise UserError(f"--symbols is for --level bpe and sentencepiece, not {args.level}: leave it out.")
    if args.min_count and args.level != "word":
        raise UserError(f"--min-count is for --level word, not {args.level}: leave it out.")
    args.symbols = args.symbols or (8000 if learned else None)
    args.min_count = args.min_count or (2 if args.level == "word" else None)
    for path in args.raw:
        if path.is_dir() and args.out.resolve().is_relative_to(path.resolve()):
            raise UserError(
                f"--out {args.out} lies in --raw {path}, where it would be read as text: choose another folder."
            )
        for made in MADE:
            if path.resolve().is_relative_to((args.out / made).resolve()):
                raise UserError(
                    f"--raw {path} lies in {args.out / made}, which this script fills: choose another --out."
                )


def write_raw(args, steps: Steps, files: dict[str | None, list[Path]]) -> dict[str, Path]:
    """Write ``OUT/raw``. Returns the file of each split."""
    errors = "surrogateescape" if args.level == "byte" else "strict"
    if None not in files:
        check_unsplit(args, files["train"][0])
        files = {split: files[split] for split in splits.SPLITS if split in files}
        names, work = list(files), partial(splits.join, files, errors)
        settings = {"files": {split: len(paths) for split, paths in files.items()}}  # one may move to another split
    else:
        shares = shares_of(args)
        border = args.split_at or "line"
        names, settings = list(shares), {"shares": shares, "border": border}
        work = partial(splits.cut, files[None], shares, border, errors)
    outputs = [steps.out / "raw" / name for name in names]
    steps.run("raw", [file for paths in files.values() for file in paths], outputs, settings | {"errors": errors}, work)
    return dict(zip(names, outputs))


def check_unsplit(args, named: Path) -> None:
    cuts = {"--valid-share": args.valid_share, "--test-share": args.test_share, "--split-at": args.split_at}
    if given := [name for name, value in cuts.items() if value is not None]:
        raise UserError(f"{given[0]} is for a text that is not split, but {named} is: leave it out.")


def shares_of(args) -> dict[str, float]:
    """The part of the text that each split gets."""
    valid, test = (0.05 if given is None else given for given in (args.valid_share, args.test_share))
    if valid + test >= 1 or not valid:
        raise UserError(
            f"--valid-share {valid:g} and --test-share {test:g} must leave something for valid and train: give numbers"
            " above 0 whose sum is below 1."
        )
    return {"train": 1 - valid - test, "valid": valid} | ({"test": test} if test else {})


def learn(args, steps: Steps, raw: dict[str, Path]) -> PreparedText:
    """How the text is prepared, with an encoding that is learned from train where the level needs one."""
    tokeniser = Plain(args.lower)
    raw_bytes = {split: path.stat().st_size for split, path in raw.items()}
    if args.level not in symbols.LEARNED:
        return PreparedText(tokeniser, tokeniser, LEVELS[args.level](), raw_bytes=raw_bytes)
    level, name, work = symbols.LEARNED[args.level]
    output, settings = steps.out / name, {"symbols": args.symbols, "lower": args.lower}
    if args.model:
        lines = (tokeniser.tokenise(line.removesuffix("\n")) for line in read_text(raw["train"]))
        settings = {"own": args.model.name, "lower": args.lower}
        steps.run("learn", [raw["train"], args.model], [output], settings, partial(own_model.take, args.model, [lines]))
    else:
        settings |= subwords.BYTE_PAIRS if args.level == subwords.SENTENCEPIECE else {}
        steps.run("learn", [raw["train"]], [output], settings, partial(work, raw["train"], tokeniser, args.symbols))
    return PreparedText(tokeniser, tokeniser, level(output), raw_bytes=raw_bytes)


def always(level: str, prepared: PreparedText, train: Path) -> list[str]:
    """Symbols that are in the dictionary even if train lacks them. With these no text has unknown symbols; for bpe, no
    text of characters that train has.

    Args:
        train: its symbols
    """
    if level == "byte":
        return NUMBERS
    if level == "bpe":
        return symbols.byte_pairs(*prepared.files, train)
    return prepared.level.symbols() if level == "sentencepiece" else []


def tell(args, prepared: PreparedText, raw: dict[str, Path]) -> None:
    """Print notes for the user, and the commands that follow."""
    if args.level in ("word", "bpe"):
        print(f"note: --level {args.level} reads any white space within a line as one space", flush=True)
    if args.lower:
        print("note: the text is in lower case, and a model writes lower case too", flush=True)
    streams = max(1, min(32, min(prepared.raw_bytes["train"], prepared.raw_bytes["valid"]) // STREAM))
    print(next_commands.language_model(args.out, list(raw)[-1], streams), flush=True)


if __name__ == "__main__":
    command_line(main)
