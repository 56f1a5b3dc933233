"""Translate raw text, a line each, from standard input to standard output.

    python -m fairseq_plugins.tools.translate runs/mine/checkpoint_best.pt < raw.de > raw.en
    python -m fairseq_plugins.tools.translate one.pt two.pt three.pt --beam 10 --lenpen 0.8 < raw.de > raw.en

Several checkpoints are an ensemble. The text needs no preparation: prepared_text.json, which the scripts of preprocess/
write and which checkpoints keep, says how to tokenise, encode and bring back. Every line gives one line, and an empty
line an empty one. A line that is too long for the model is cut between sentences or words; the parts are translated
apart and joined. At the end messages give the numbers of such lines, and of lines with symbols that the model does not
know. Lines are read in buffers, and sorted by length in them; at a terminal, or with --buffer 1, each line is answered
at once.
"""

import os
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.options.ranges import RANGES, whole
from fairseq_plugins.text.lines import MAX_LEN_A
from fairseq_plugins.tools.lib.command import Command, tell

BUFFER = 2000
NAMED = 10  # numbers of lines in a message
# options of fairseq's search: their defaults, the names of their values, and words
SEARCH = {
    "beam": (5, "N", "beam size"),
    "lenpen": (1.0, "P", "length penalty: below 1 shorter"),
    "max_len_a": (MAX_LEN_A, "A", "a translation has at most A times the tokens of its source, and B"),
    "max_len_b": (200, "B", "the B of --max-len-a"),
    "min_len": (1, "N", "fewest tokens of a translation"),
    "no_repeat_ngram_size": (0, "N", "no N tokens come twice in a translation; 0: they may"),
}


def main():
    parser = Command(__doc__)
    parser.option("checkpoints", checkpoint, None, "CHECKPOINT", "checkpoints, or their folders", nargs="+")
    for name, (default, metavar, words) in SEARCH.items():
        parser.option(flag(name), RANGES[name], default, metavar, words)
    parser.option("--max-tokens", whole(1), 4000, "N", "source tokens of a batch")
    words = f"lines that are read before they are translated (1 at a terminal, else {BUFFER})"
    parser.option("--buffer", whole(1), None, "N", words)
    words = "folder with prepared_text.json and the dictionaries (default: that of the checkpoint, else of its data)"
    parser.option("--prepared-text", Path, None, "DIR", words)
    parser.add_cpu()
    parser.add_int8()
    parser.switch("--fp16", "compute in half precision, on a GPU")
    args = parser.parse()
    translator = load_translator(args)
    translate(translator, sys.stdin.buffer, sys.stdout.buffer, args.buffer or (1 if sys.stdin.isatty() else BUFFER))


def load_translator(args):
    import torch

    from fairseq_plugins.tools.lib.load import check_there
    from fairseq_plugins.tools.lib.translator import Translator, folder_of_text

    check_there(*args.checkpoints)
    if args.fp16 and (args.cpu or not torch.cuda.is_available()):
        raise UserError("--fp16 needs a GPU; leave it out.")
    text = args.prepared_text or folder_of_text(args.checkpoints[0])
    search = {name: getattr(args, name) for name in SEARCH}
    return Translator(args.checkpoints, text, search, args.max_tokens, args.cpu, args.fp16, args.int8)


def translate(translator, source: BinaryIO, target: BinaryIO, buffer: int) -> None:
    """Write the translation of every line of ``source``. Memory does not grow with the number of lines. Raises
    UserError if a line is not UTF-8."""
    from tqdm import tqdm

    done, long, unknown = 0, Numbers(), Numbers()
    total = file_size(source)
    every = 0.5 if sys.stderr.isatty() else 10  # seconds
    mixed = source.isatty() or (target.isatty() and sys.stderr.isatty())  # the bar would be between lines of text
    with tqdm(total=total, unit="B", unit_scale=True, desc="translate", mininterval=every, disable=mixed) as bar:
        lines = enumerate(source, 1)
        while block := list(islice(lines, buffer)):
            found = translator.translate([decode(line, number) for number, line in block])
            target.write("".join(line + "\n" for line in found.translations).encode())
            target.flush()
            long.add(done + index + 1 for index in found.long)
            unknown.add(done + index + 1 for index in found.unknown)
            done += len(block)
            bar.set_postfix_str(f"{done} lines", refresh=False)
            bar.update(sum(len(line) for _, line in block))
    if long.count:
        tell(f"longer than the {translator.longest} tokens that the model takes, so translated in parts: line {long}")
    if unknown.count:
        tell(f"with symbols that the model does not know, so perhaps translated badly: line {unknown}")


@dataclass
class Numbers:
    """How many numbers there are, and the first of them."""

    first: list[int] = field(default_factory=list)
    count: int = 0

    def add(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.count += 1
            if len(self.first) < NAMED:
                self.first.append(number)

    def __str__(self) -> str:
        more = self.count - len(self.first)
        return ", ".join(map(str, self.first)) + (f" and {more} more" if more else "")


def decode(line: bytes, number: int) -> str:
    """The text of a line. A byte order mark before the first line is no text. Raises UserError if it is not UTF-8."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"line {number} of the input is not UTF-8 ({error.reason}): convert the input, for example with iconv."
        ) from None


def file_size(file: BinaryIO) -> int | None:
    """The number of bytes of a regular file, None for a pipe."""
    state = os.fstat(file.fileno())
    return state.st_size if stat.S_ISREG(state.st_mode) else None


if __name__ == "__main__":
    main()
