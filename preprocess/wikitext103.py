"""WikiText-103: articles of Wikipedia, word by word.

    python preprocess/wikitext103.py --out data/wikitext103             # downloads 181 MB
    python preprocess/wikitext103.py --out data/wikitext103 --raw DIR   # wiki.{train,valid,test}.tokens in DIR
    python preprocess/wikitext103.py --out data/wikitext2 --raw DIR --any-size
    python preprocess/wikitext103.py --out data/wikitext103_lines --lines

103,227,021 training, 217,646 valid and 245,569 test tokens, with one end-of-line token per line, of 267,735 types. The
same binarised data serve for both ways of counting: with --no-end-of-line the task leaves out the end-of-line tokens.

With --lines each line is a sequence, for --task language_modeling --sample-break-mode eos, as in the active-memory
paper (section 4.1.1): text in lower case, @-@ for each hyphen, punctuation marks as words of their own, byte pair
encoding of 32,000 symbols. Lines without a word, about a third, are left out. The rest has about 90 words per line, as
in the paper.

    OUT/clean       the lines in this form
    OUT/codes.bpe   byte pair encoding, learned from the training lines
    OUT/bpe         encoded
"""

import unicodedata
from functools import lru_cache, partial
from pathlib import Path

from lib import language_model, locate, raw_text, translation
from lib.download import Remote
from lib.options import start
from lib.steps import Steps, command_line

from fairseq_plugins.options.ranges import whole
from fairseq_plugins.text.levels import BytePairs, Words
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain

REMOTES = [
    Remote(
        "wikitext-103-v1.zip",
        (
            "https://wikitext.smerity.com/wikitext-103-v1.zip",
            "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip",
        ),
        "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
    )
]
SIZES = {"train": (1_801_350, 103_227_021), "valid": (3_760, 217_646), "test": (4_358, 245_569)}

FILE = "wiki.{split}.tokens"
UNKNOWN = "<unk>"
WHOLE = (UNKNOWN, "@-@", "@,@", "@.@")  # symbols of WikiText; the last three are marks within a word or number


def main():
    options = language_model.files_parser(__doc__)
    options.add_argument("--lines", action="store_true", help="make each line a sequence, in lower case and encoded")
    options.add_argument(
        "--bpe", type=whole(1), default=32000, metavar="N", help="symbols of the byte pair encoding (%(default)s)"
    )
    args, steps, raw = start(options, REMOTES)
    language_model.lines(args, steps, raw, FILE, SIZES)
    if args.lines:
        encode_lines(args, steps)
        language_model.prepare_bin(steps, folder="bpe")
        language_model.ready(steps, "language_modeling --sample-break-mode eos")
    else:
        files = {split: locate.file(raw, FILE.format(split=split)) for split in language_model.SPLITS}
        raw_bytes = {split: raw_text.size(file) for split, file in files.items()}
        prepared = PreparedText(Plain(), Plain(), Words(), raw_bytes=raw_bytes)
        language_model.prepare_bin(steps, prepared)
        language_model.ready(steps)


def encode_lines(args, steps: Steps) -> None:
    """Encode ``OUT/text`` into ``OUT/bpe``."""
    for split in language_model.SPLITS:
        source, cleaned = steps.out / "text" / split, steps.out / "clean" / split
        steps.run(f"clean-{split}", [source], [cleaned], {}, partial(clean_lines, source))
    train, codes = steps.out / "clean" / "train", steps.out / "codes.bpe"
    learn = partial(raw_text.learn_codes, [train], number=args.bpe, counted="symbols")
    steps.run("learn-bpe", [train], [codes], {"symbols": args.bpe}, learn)
    encode = BytePairs(codes, WHOLE).encode
    for split in language_model.SPLITS:
        source, encoded = steps.out / "clean" / split, steps.out / "bpe" / split
        translation.map_step(steps, f"encode-{split}", encode, source, encoded, args.workers, [codes])


def clean_lines(source: Path, destination: Path) -> str:
    number = kept = 0
    with open(destination, "w", encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(raw_text.read_lines(source), 1):
            if words := clean(line):
                file.write(words + "\n")
                kept += 1
    return f"{number} lines in, {number - kept} left out without a word, {kept} out"


def clean(line: str) -> str:
    """The line in lower case, with @-@ for hyphens and spaces around other marks."""
    return " ".join(filter(None, map(clean_word, line.split())))


@lru_cache(maxsize=2**20)
def clean_word(word: str) -> str:
    if word in WHOLE:
        return word
    marked = "".join(f" {sign} " if unicodedata.category(sign)[0] in "PS" else sign for sign in word.lower())
    return " ".join("@-@" if part == "-" else part for part in marked.split())


if __name__ == "__main__":
    command_line(main)
