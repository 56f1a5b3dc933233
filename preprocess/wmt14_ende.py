"""WMT14 English to German: train on WMT16's 4.5M pairs, newstest2013 valid, newstest2014 test, 32K joint BPE.

    python preprocess/wmt14_ende.py --out data/wmt14                  # downloads 1.2 GB
    python preprocess/wmt14_ende.py --out data/wmt14 --raw DIR        # train.{en,de} or the archives' files in DIR

The training text is Europarl v7, Common Crawl and News Commentary v11, cased. Moses punctuation normalisation is
applied to all splits, since newstest2014 has German quotation marks and most training text has not. Hyphenated words
are not split: the published scores split compounds at scoring time. Cleaning keeps pairs of 1 to 250 words whose
lengths differ by a factor of at most 1.5. sacreBLEU is computed against the raw references. With --bpe sentencepiece
the text is neither normalised nor tokenised.
"""

from lib import translation
from lib.download import Remote
from lib.options import start
from lib.steps import command_line

REMOTES = [
    Remote("europarl-v7.tgz", ("https://www.statmt.org/europarl/v7/de-en.tgz",)),
    Remote(
        "commoncrawl.tgz",
        (
            "https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
            "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
        ),
        "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    ),
    Remote(
        "news-commentary-v11.tgz",
        (
            "https://data.statmt.org/wmt16/translation-task/training-parallel-nc-v11.tgz",
            "http://data.statmt.org/wmt16/translation-task/training-parallel-nc-v11.tgz",
        ),
        "cfe8ab047e05043476e498ee765c98e939c7b7d6d294e856344c84476b619d6a",
    ),
    Remote("dev.tgz", ("https://data.statmt.org/wmt16/translation-task/dev.tgz",)),
    Remote("test-full.tgz", ("https://www.statmt.org/wmt14/test-full.tgz",)),
]
LAYOUTS = {
    "train": [
        ["train.{language}"],
        ["europarl-v7.de-en.{language}", "commoncrawl.de-en.{language}", "news-commentary-v11.de-en.{language}"],
    ],
    "valid": [["newstest2013.{language}"], ["newstest2013-{role}.{language}.sgm"]],
    "test": [
        ["newstest2014.{language}"],
        ["test-full/newstest2014-deen-{role}.{language}.sgm"],  # dev.tgz has files of this name, too
        ["newstest2014-deen-{role}.{language}.sgm"],
    ],
}


def main():
    args, steps, raw = start(translation.parallel_parser(__doc__, 32000, max_ratio=1.5), REMOTES)
    translation.prepare_parallel(args, "en", "de", LAYOUTS, raw, steps, normalise=True, arch="feedback_transformer_wmt")


if __name__ == "__main__":
    command_line(main)
