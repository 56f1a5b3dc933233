"""The repositories whose checkpoints can be converted."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from fairseq_plugins.conversion.vocabulary import Vocabulary

END_OF_LINE, UNKNOWN = "<eos>", "<unk>"  # as the repositories write them

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
        state: the parameters by their names in a decoder. The rows of symbols are still in the order of the source
        block: the --tokens-per-sample that the repository evaluates with
        notes: sentences for the user, such as assumptions about options that the file does not hold
    """

    arch: str
    options: dict[str, Any]
    state: dict[str, Tensor]
    block: int
    notes: list[str]

    @property
    def symbols(self) -> int:
        """The number of symbols in the source's vocabulary."""
        names = ("embed.weight", "embed.0.weight")
        return sum(
            len(table) for name, table in self.state.items() if name in names or name.startswith("embed.tables.")
        )


@dataclass(frozen=True)
class Source:
    """A repository, and its files.

    Attributes:
        name: for --from and for messages
        convert: the content of a checkpoint, and the tool's options -> the model. It raises UserError for a checkpoint
            of another repository, or of a model that this suite does not have
        counted_vocabulary: the training text that a vocabulary is counted from, and the model -> its vocabulary
        symbols: the way to the list of symbols in a pickled corpus, by attributes or keys
        corpus_types: the classes in a pickled corpus
        checkpoint_types: the classes in a checkpoint, beside tensors and plain Python types
        flags: options of the tool that only some repositories need
        file_of: the checkpoint that the user named -> the file to read
        ends_lines: a pickled corpus, None for a list of symbols; its symbols -> does an end of line follow each line?
    """

    name: str
    convert: Callable[[Any, Namespace], Converted]
    counted_vocabulary: Callable[[Path, Converted], Vocabulary]
    symbols: tuple[str, ...]
    corpus_types: tuple[str, ...] = ()
    checkpoint_types: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    file_of: Callable[[Path], Path] = lambda path: path
    ends_lines: Callable[[Any, list[str]], bool] = lambda corpus, symbols: END_OF_LINE in symbols


def source(name: str) -> Source:
    """The repository of this name in SOURCES."""
    return import_module(f"{__package__}.{SOURCES[name]}").SOURCE
