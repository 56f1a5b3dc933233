"""The log-probability of each line of raw text, and its bits per byte.

    python -m fairseq_plugins.tools.score_text runs/mine/checkpoint_best.pt book.txt notes.txt.gz > scores.tsv
    head -1000 book.txt | python -m fairseq_plugins.tools.score_text runs/mine/checkpoint_best.pt - --totals

On standard output stand, for each line, its natural log-probability, a tab, and the line (with --json-lines an object);
on standard error, the figures of each file. The log-probability is that of all symbols of the line, the newline
included. A model over streams reads a file from its beginning to its end, and its memory goes on from line to line: the
figures are those of fairseq-eval-lm with --batch-size 1 and the training's --tokens-per-sample. A model of single lines
scores each line by itself, and always its end, too.

Models with different symbols can be compared by their bits per byte. Symbols that the dictionary lacks are scored as
<unk>; the figures say so, and are then too low. The text is never held in memory; a line of more than a million bytes
is given in pieces.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.options.ranges import whole
from fairseq_plugins.text.reading import STDIN
from fairseq_plugins.tools.lib.command import Command
from fairseq_plugins.tools.lib.language_model import add_options, load_language_model

if TYPE_CHECKING:
    from fairseq_plugins.tools.lib.scoring import TextFigures


def main():
    args = options().parse()
    from fairseq_plugins.tools.lib.scoring import Scorer, TextFigures

    model, cfg, task, text = load_language_model(args.checkpoint, args.data, args.tokens, args.cpu, args.int8)
    model.prepare_for_inference_(cfg)
    scorer = Scorer(model, cfg, task, text, args.tokens_per_sample or cfg.task.tokens_per_sample)
    for path in args.texts:
        figures = TextFigures()
        mixed = sys.stdout.isatty() and not args.totals  # the bar would be between lines of text
        with tqdm(desc=str(path), unit="B", unit_scale=True, disable=mixed or None, file=sys.stderr) as bar:
            for line, score in scorer.score(path, figures):
                bar.update(figures.bytes - bar.n)
                if not args.totals:
                    tell_line(path, figures.lines, line, score, args.json_lines)
        if not figures.bytes:
            raise UserError(f"{path} is empty: give a text.")
        sys.stdout.flush()
        tell_figures(path, figures, scorer.newlines, args)


def options() -> Command:
    parser = Command(__doc__)
    parser.add_argument("checkpoint", type=checkpoint, metavar="CKPT", help="a checkpoint, or its folder")
    parser.option("texts", Path, None, "FILE", f"raw text, also compressed; {STDIN} is standard input", nargs="+")
    parser.switch("--totals", "print the figures of each file only, on standard output")
    parser.switch("--json-lines", "print objects, in place of text, one a line")
    words = "tokens that a model over streams reads at once; figures may depend on it (default: as in training)"
    parser.option("--tokens-per-sample", whole(1), None, "M", words)
    add_options(parser)
    return parser


def tell_line(path: Path, number: int, line: str, score: float, as_json: bool) -> None:
    if as_json:
        tell_json({"file": str(path), "line": number, "log_prob": score, "text": line})
    else:  # bytes that are no text come out as they were
        sys.stdout.buffer.write(f"{score:.6f}\t{line}\n".encode(errors="surrogateescape"))


def tell_json(record: dict) -> None:
    """Print JSON in UTF-8. Bytes that are no text become U+FFFD, as JSON cannot hold them."""
    text = json.dumps(record, ensure_ascii=False).encode(errors="surrogateescape")
    sys.stdout.buffer.write(text.decode(errors="replace").encode() + b"\n")


def tell_figures(path: Path, figures: TextFigures, newlines: bool, args) -> None:
    """Print the figures of a file.

    Args:
        newlines: are newlines tokens? If not, there is no code for the whole text
    """
    if args.json_lines:
        found = {"file": str(path), "lines": figures.lines, "tokens": figures.all.tokens, "nats": figures.all.nats}
        found |= {"bytes": figures.bytes, "unknown": figures.unknown}
        found |= {"bits_per_byte": figures.bits_per_byte} if newlines else {}
        tell_json(found)
    else:
        said = figures if newlines else figures.without_newlines
        print(f"{path}: {said}", file=sys.stdout if args.totals else sys.stderr)


if __name__ == "__main__":
    main()
