"""WikiText-103: articles of Wikipedia, word by word.

    python preprocess/wikitext103.py --out data/wikitext103             # downloads 181 MB
    python preprocess/wikitext103.py --out data/wikitext103 --raw DIR   # wiki.{train,valid,test}.tokens in DIR
    python preprocess/wikitext103.py --out data/wikitext2 --raw DIR --any-size

103,227,021 training, 217,646 valid and 245,569 test tokens, one end of line a line included, of 267,735 types. One
binarisation serves both ways of counting: with --no-end-of-line the task leaves the end-of-line tokens out, over the
same dictionary.
"""

import language_model
from download import Remote
from steps import command_line

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


def main():
    language_model.prepare_files(__doc__, REMOTES, "wiki.{split}.tokens", SIZES)


if __name__ == "__main__":
    command_line(main)
