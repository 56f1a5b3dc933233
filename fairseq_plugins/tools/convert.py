r"""Make a checkpoint of the papers' public code a checkpoint of this suite.

    python -m fairseq_plugins.tools.convert enwik8.pt --from adaptive-span --vocabulary data/enwik8/corpus.pt \
        --out runs/enwik8_published

The folder can be evaluated with fairseq-eval-lm, sampled from, used to score raw text, trained further and loaded with
``from_pretrained``; the tool prints the commands. Nothing in the file is run: torch's safe loader reads it.

No checkpoint holds its symbols. --vocabulary takes the corpus that the repository pickled in its data folder
(corpus.pt, corpus_sorted.pt, cache.pt, data_corpus_sorted.pt), the train.txt that was counted, or a list of symbols,
one a line, in the model's order. docs/published_checkpoints.md says where the authors' files are and what they should
score.
"""

from pathlib import Path

from fairseq_plugins.conversion.sources import SOURCES, source
from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.options.ranges import RANGES, whole
from fairseq_plugins.tools.lib.command import Command

SPECIAL = ("span_ramp", "mem_len", "activation_fn", "prenorm", "data_eos")  # options that only some repositories need


def main():
    args = options().parse()
    repository = source(args.source)
    for name in SPECIAL:
        if getattr(args, name) is not None and name not in repository.flags:
            raise UserError(f"{flag(name)} is no option of --from {args.source}; leave it out.")
    from fairseq_plugins.conversion import reading, vocabulary, weights, writing

    writing.refuse_folder(args.out)
    if args.vocabulary is None:
        raise UserError(
            "--vocabulary is missing: no checkpoint holds its symbols; give the repository's pickled corpus, its"
            " train.txt, or a list of symbols."
        )
    args.checkpoint = repository.file_of(args.checkpoint)
    checkpoint = reading.read(args.checkpoint, repository.checkpoint_types, f"a checkpoint of {args.source}")
    with weights.shapes_that_fit(args.checkpoint, args.source):
        converted = repository.convert(checkpoint, args)
    if args.tokens_per_sample:
        converted = converted._replace(block=args.tokens_per_sample)
    symbols = vocabulary.read_vocabulary(args.vocabulary, repository, converted, args.data_eos)
    converted = converted._replace(notes=[*converted.notes, *symbols.notes])
    with weights.shapes_that_fit(args.checkpoint, args.source):
        written = writing.write(args.out, converted, symbols)
    print(writing.told(args.out, converted, written))


def options() -> Command:
    parser = Command(__doc__)
    parser.add_argument("checkpoint", type=Path, help="the file that the repository saved; a folder for transformers")
    parser.add_argument("--from", dest="source", choices=SOURCES, required=True, help="the repository")
    parser.option("--vocabulary", Path, None, "FILE", "where its symbols are")
    parser.option("--out", Path, None, "FOLDER", "a new folder", required=True)
    parser.option("--span-ramp", RANGES["span_ramp"], None, "N", "width of the soft edge of adaptive spans (32)")
    parser.option("--mem-len", whole(1), None, "N", "tokens in the memory (as log.txt says, or 512)")
    parser.add_argument("--activation-fn", help="activation of feed-forward layers (as log.txt says, or relu)")
    words = "the model has pre-norm (as log.txt says, or not)"
    parser.add_argument("--prenorm", action="store_const", const=True, help=words)
    words = "ends of lines are tokens, which a text or a list of symbols does not tell"
    parser.add_argument("--data-eos", action="store_const", const=True, help=words)
    parser.option("--tokens-per-sample", whole(1), None, "N", "tokens in a block (as the repository's scripts have)")
    return parser


if __name__ == "__main__":
    main()
