"""Files of a folder that a script has filled."""

from fairseq.data import Dictionary, indexed_dataset


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def symbols(prefix, dictionary) -> list[list[str]]:
    """The symbols of each binarised line."""
    known, data = Dictionary.load(str(dictionary)), indexed_dataset.make_dataset(str(prefix), impl="mmap")
    return [[known[token] for token in data[line]] for line in range(len(data))]
