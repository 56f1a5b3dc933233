"""Penn Treebank, character by character: the Wall Street Journal in lower case, numbers as N, rare words as <unk>.

    python preprocess/char_ptb.py --out data/char_ptb               # downloads 34 MB
    python preprocess/char_ptb.py --out data/char_ptb --raw DIR     # ptb.char.{train,valid,test}.txt in DIR

5,017,482 training, 393,042 valid and 442,423 test tokens: characters, _ for the space, and one end of line a line.
"""

import language_model
from download import Remote, fetch_all
from steps import Steps, command_line

REMOTES = [
    Remote(
        "simple-examples.tgz",
        (
            "https://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
            "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
        ),
    )
]
SIZES = {"train": (42_068, 5_017_482), "valid": (3_370, 393_042), "test": (3_761, 442_423)}


def main():
    parser = language_model.parser(__doc__)
    language_model.size_option(parser)
    args = parser.parse_args()
    steps = Steps(args.out)
    raw = args.raw or fetch_all(REMOTES, steps)
    language_model.lines(args, steps, raw, "ptb.char.{split}.txt", SIZES, characters)
    language_model.binarise(args, steps)


def characters(line: str) -> list[str]:
    """
    Raises:
        ValueError: a symbol is longer than a character.
    """
    symbols = line.split()
    if wrong := next((symbol for symbol in symbols if len(symbol) > 1), None):
        raise ValueError(f"'{wrong}' is not one character: characters are separated by spaces, words by _")
    return symbols


if __name__ == "__main__":
    command_line(main)
