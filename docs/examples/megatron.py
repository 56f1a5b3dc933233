"""Megatron's binarised data as fairseq's, for a language model over streams."""

from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_builder

from fairseq_plugins.files.megatron import documents


def convert(source: str, target: str, size: int, end: int) -> int:
    """
    Args:
        source: folder with SPLIT_text_document.idx and .bin, of train, valid and test
        target: a new folder of data for fairseq
        size: number of the tokeniser's tokens
        end: the token that ends a document; it becomes </s>
    Returns:
        the number of symbols in the dictionary
    """
    folder = Path(target)
    folder.mkdir(parents=True)
    dictionary = Dictionary()  # begins with the special symbols
    for number in range(size):
        dictionary.add_symbol(str(number))
    dictionary.save(str(folder / "dict.txt"))
    for split in "train", "valid", "test":
        builder = make_builder(str(folder / f"{split}.bin"), "mmap", len(dictionary))
        for tokens in documents(f"{source}/{split}_text_document"):
            tokens = torch.from_numpy(tokens[tokens != end]) + dictionary.nspecial
            builder.add_item(torch.cat([tokens, torch.tensor([dictionary.eos()])]))
        builder.finalize(str(folder / f"{split}.idx"))
    return len(dictionary)
