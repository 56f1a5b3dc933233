"""text8: 100,000,000 characters of Wikipedia, letters a to z and the space.

    python preprocess/text8.py --out data/text8                   # downloads 31 MB
    python preprocess/text8.py --out data/text8 --raw DIR         # text8 (or text8.gz) in DIR
    python preprocess/text8.py --out data/excerpt --raw DIR --split 900000,50000,50000

90,000,000 training characters, then 5,000,000 valid and 5,000,000 test. A token is a character, with _ for the space.
The corpus is one line without a newline: a split has exactly as many tokens as characters, and no end-of-line token.
(The published code adds one to the end of each split.)
"""

import re

from lib import language_model
from lib.download import Remote
from lib.steps import UserError, command_line

from fairseq_plugins.text.levels import Characters

REMOTES = [
    Remote(
        "text8.zip",
        (
            "https://mattmahoney.net/dc/text8.zip",
            "http://mattmahoney.net/dc/text8.zip",
            "https://data.deepai.org/text8.zip",
        ),
        "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
    )
]
SIZES = (90_000_000, 5_000_000, 5_000_000)


def main():
    language_model.prepare_file(__doc__, REMOTES, "text8", SIZES, characters, Characters(space="_"), line_ends=False)


def characters(content: bytes):
    """Lines of characters. The line breaks have no meaning; they are removed after binarising."""
    if wrong := re.search(rb"[^a-z ]", content):
        raise UserError(
            f"the text has the byte {wrong[0]!r}, but text8 is letters a to z and spaces: put the published file there."
        )
    letters = content.decode().replace(" ", "_")
    for start in range(0, len(letters), language_model.CUT):
        yield " ".join(letters[start : start + language_model.CUT]) + "\n"


if __name__ == "__main__":
    command_line(main)
