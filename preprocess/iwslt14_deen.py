"""IWSLT14 German to English: TED talks, lower-cased, 10K joint BPE, split as fairseq's example does.

    python preprocess/iwslt14_deen.py --out data/iwslt14              # downloads 19 MB
    python preprocess/iwslt14_deen.py --out data/iwslt14 --raw DIR    # the archive's files, or train and test

Cleaning keeps pairs of 1 to 175 words whose lengths differ by a factor of at most 1.5. If there is no valid set, every
23rd clean training pair is moved to it. The test set is dev2010, dev2012 and tst2010 to tst2012 (6,750 pairs). The
dictionary is joined; models with separate embeddings can use it, too. With --bpe sentencepiece the text is not
tokenised, and the lengths are of words between spaces.
"""

from lib import translation
from lib.download import Remote
from lib.options import start
from lib.steps import command_line

REMOTES = [
    Remote(
        "de-en.tgz",
        (
            "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
            "https://wit3.fbk.eu/archive/2014-01/texts/de/en/de-en.tgz",
        ),
    )
]
TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
LAYOUTS = {
    "train": [["train.{language}"], ["train.tags.de-en.{language}"]],
    "valid": [["valid.{language}"]],
    "test": [["test.{language}"], [f"IWSLT14.{name}.de-en.{{language}}.xml" for name in TESTS]],
}


def main():
    parser = translation.parallel_parser(__doc__, 10000, max_words=175, max_ratio=1.5)
    carve_help = "take valid from train even if there is a valid file"
    parser.add_argument("--carve-valid", action="store_true", help=carve_help)
    args, steps, raw = start(parser, REMOTES)
    layouts = LAYOUTS | ({"valid": []} if args.carve_valid else {})
    translation.prepare_parallel(args, "de", "en", layouts, raw, steps, lower=True, carve=23)


if __name__ == "__main__":
    command_line(main)
