"""Your own parallel text: train, valid and test in two languages, one sentence per line.

    python preprocess/parallel.py --raw DIR --source en --target fr --out data/mine --bpe 8000
    python preprocess/parallel.py --raw DIR --source en --target fr --out data/mine --bpe sentencepiece --symbols 8000
    python preprocess/parallel.py --raw DIR --source zh --target en --out data/mine

DIR holds train.en, train.fr, valid.en, valid.fr, test.en and test.fr, plain or .gz. Spaces, tabs and control characters
become single spaces. Byte pair encoding works on Moses tokens, SentencePiece on raw text, in any language. Where the
text of a language is written without spaces between words, SentencePiece is taken. prepared_text.json in OUT/bin says
how the text was prepared, so that later commands need no flags for it; these commands are printed at the end. For fewer
than 100,000 training pairs they train a small model.
"""

from lib import translation
from lib.steps import Steps, UserError, command_line


def main():
    parser = translation.parser(__doc__, 8000)
    translation.parallel_options(parser)
    parser.add_argument("--source", required=True, metavar="LANGUAGE", help="suffix of the source files")
    parser.add_argument("--target", required=True, metavar="LANGUAGE", help="suffix of the target files")
    parser.add_argument("--lower", action="store_true", help="lower-case all text")
    args = parser.parse_args()
    if not args.raw:
        raise UserError("--raw is missing: give the folder that holds your text.")
    if args.source == args.target:
        raise UserError(f"--source and --target are both {args.source}; name the two languages.")
    layouts = {split: [[split + ".{language}"]] for split in translation.SPLITS}
    translation.prepare_parallel(args, args.source, args.target, layouts, args.raw, Steps(args.out), lower=args.lower)


if __name__ == "__main__":
    command_line(main)
