"""The repositories whose checkpoints can be converted, and what each of them says about its files."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from fairseq_plugins.conversion.vocabulary import Vocabulary

# Names for --from, and the modules beside this one, which have a SOURCE. They import torch
SOURCES = {
    "adaptive-span": "adaptive_span",
    "transformer-sequential": "transformer_sequential",
    "transformer-xl": "transformer_xl",
    "transformers": "transformers_library",
    "skip-retain": "skip_retain",
}


class Converted(NamedTuple):
    """A model of this suite, made of a checkpoint.

    Attributes:
        arch: for --arch
        options: of the architecture, those that differ from its defaults
        state: the parameters by their names here. The rows of symbols are still in the order of the source
        block: the --tokens-per-sample that the repository evaluates with
        notes: sentences for the user: what the file does not say and was assumed
    """

    arch: str
    options: dict[str, Any]
    state: dict[str, Tensor]
    block: int
    notes: list[str]

    @property
    def symbols(self) -> int:
        """The number of symbols in the source's vocabulary."""
        names = ("decoder.embed.weight", "decoder.embed.0.weight")
        return sum(len(self.state[name]) for name in self.state if name in names or ".embed.tables." in name)


@dataclass(frozen=True)
class Source:
    """What a repository's files are like.

    Attributes:
        convert: the content of a checkpoint, and the tool's options -> the model. It raises UserError for a checkpoint
            of another repository, or of a model that this suite does not have
        pickled_vocabulary: the object of the corpus that the repository pickles -> its vocabulary
        counted_vocabulary: the training text that a vocabulary is counted from, and the model -> its vocabulary
        corpus_types: the classes in a pickled corpus
        checkpoint_types: the classes in a checkpoint, beside tensors and plain Python types
        flags: options of the tool that only some repositories need
        file_of: what was given as the checkpoint -> the file to read
        list_ends_lines: does an end of line in a list of symbols mean that one follows each line of a text?
    """

    convert: Callable[[Any, Namespace], Converted]
    pickled_vocabulary: Callable[[Any], Vocabulary]
    counted_vocabulary: Callable[[Path, Converted], Vocabulary]
    corpus_types: tuple[str, ...]
    checkpoint_types: tuple[str, ...] = ()
    flags: tuple[str, ...] = field(default=())
    file_of: Callable[[Path], Path] = lambda path: path
    list_ends_lines: bool = True


def source(name: str) -> Source:
    """The repository of this name in SOURCES."""
    return import_module(f"{__package__}.{SOURCES[name]}").SOURCE
