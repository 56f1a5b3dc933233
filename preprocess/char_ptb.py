"""Penn Treebank, character by character: the Wall Street Journal in lower case, numbers as N, rare words as <unk>.

    python preprocess/char_ptb.py --out data/char_ptb               # downloads 34 MB
    python preprocess/char_ptb.py --out data/char_ptb --raw DIR     # ptb.char.{train,valid,test}.txt in DIR

5,017,482 training, 393,042 valid and 442,423 test tokens: characters, _ for the space, and one end-of-line token per
line. The archive is Mikolov's. The second host and the checksum, an MD5, come from PaddlePaddle's data set Imikolov.
"""

from pathlib import Path

from lib import language_model
from lib.download import Remote
from lib.options import start
from lib.steps import command_line

from fairseq_plugins.text.levels import Characters
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain

REMOTES = [
    Remote(
        "simple-examples.tgz",
        (
            "https://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
            "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
            "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz",
        ),
        "30177ea32e27c525793142b6bf2c8e2d",
        "md5",
    )
]
SIZES = {"train": (42_068, 5_017_482), "valid": (3_370, 393_042), "test": (3_761, 442_423)}


def main():
    args, steps, raw = start(language_model.files_parser(__doc__), REMOTES)
    language_model.lines(args, steps, raw, "ptb.char.{split}.txt", SIZES, characters)
    text = {split: steps.out / "text" / split for split in language_model.SPLITS}
    raw_bytes = {split: raw_bytes_of(path) for split, path in text.items()}
    prepared = PreparedText(Plain(), Plain(), Characters(space="_"), raw_bytes=raw_bytes)
    language_model.prepare_bin(steps, prepared)
    language_model.ready(steps)


def characters(line: str) -> list[str]:
    """
    Raises:
        ValueError: a symbol is longer than one character
    """
    symbols = line.split()
    if wrong := next((symbol for symbol in symbols if len(symbol) > 1), None):
        raise ValueError(f"'{wrong}' is not one character: characters are separated by spaces, words by _")
    return symbols


def raw_bytes_of(text: Path) -> int:
    """The bytes of the text without the spaces that separate its characters."""
    with open(text, "rb") as file:
        return sum(len(line) - line.count(b" ") for line in file)


if __name__ == "__main__":
    command_line(main)
