"""enwik8: the first 100,000,000 bytes of a Wikipedia dump, byte by byte.

    python preprocess/enwik8.py --out data/enwik8                 # downloads 35 MB
    python preprocess/enwik8.py --out data/enwik8 --raw DIR       # enwik8 (or enwik8.gz) in DIR
    python preprocess/enwik8.py --out data/excerpt --raw DIR --file excerpt.gz --split 3600000,200000,200000

90,000,000 bytes to train on, then 5,000,000 valid and 5,000,000 test. A token is a byte, written as a decimal number;
the newline, byte 10, is the end-of-line token, so a split has exactly as many tokens as bytes. With 204 other bytes
these are the 205 symbols of the all-attention paper. (Some published results leave out newlines, about 1 % of the
tokens, as --no-end-of-line does.)
"""

import re

from lib import language_model
from lib.download import Remote
from lib.steps import command_line

from fairseq_plugins.text.levels import Bytes

REMOTES = [
    Remote(
        "enwik8.zip",
        (
            "https://mattmahoney.net/dc/enwik8.zip",
            "http://mattmahoney.net/dc/enwik8.zip",
            "https://data.deepai.org/enwik8.zip",
        ),
        "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
    )
]
SHA256 = "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8"  # of the unpacked file
SIZES = (90_000_000, 5_000_000, 5_000_000)
NUMBERS = [str(byte) for byte in range(256)]


def main():
    language_model.prepare_file(__doc__, REMOTES, "enwik8", SIZES, numbers, Bytes(), SHA256)


def numbers(content: bytes):
    """Lines of decimal numbers. The last line ends with a newline only if it does in ``content``."""
    for line in re.findall(rb"[^\n]*\n|[^\n]+", content):
        end = "\n" if line.endswith(b"\n") else ""
        yield " ".join(map(NUMBERS.__getitem__, line.removesuffix(b"\n"))) + end


if __name__ == "__main__":
    command_line(main)
