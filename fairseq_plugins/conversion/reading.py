"""Read files of torch.save, of any age, without running code of theirs.

torch's safe loader builds tensors and plain Python types only. A repository's other classes are listed by their full
names. Their objects become stand-ins, which have the attributes in the file and no method of the class.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn, serialization

from fairseq_plugins.conversion.legacy import without_sources
from fairseq_plugins.errors import UserError
from fairseq_plugins.files import sealed


class StandIn(nn.Module):
    """In place of an object of a repository's class: its attributes; its parameters, if it is a module."""


def stand_in(name: str) -> type[StandIn]:
    """An empty class in place of the one with this full name."""
    return type(name, (StandIn,), {})


@contextmanager
def only_types(types: Iterable[Any]) -> Iterator[None]:
    """In this context torch's safe loader builds exactly these types beside its own."""
    before = serialization.get_safe_globals()
    serialization.clear_safe_globals()
    serialization.add_safe_globals(list(types))
    try:
        yield
    finally:
        serialization.clear_safe_globals()
        serialization.add_safe_globals(before)


def read(path: Path, types: Iterable[str] = (), types_of: str = "it") -> Any:
    """The content of a file of torch.save, its tensors on the CPU.

    Args:
        types: full names of classes that the file may hold, such as data.Corpus
        types_of: whose classes these are, for messages

    Raises:
        UserError: the file is missing or damaged, or holds another type
    """
    if not path.is_file():
        raise UserError(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; give a file.")
    try:
        with open(path, "rb") as file:
            why = sealed.damage(file)
            if why:
                raise UserError(f"{path} is damaged ({why}); get it again.")
            file.seek(0)
            with only_types((stand_in(name), name) for name in types):
                return torch.load(without_sources(file), map_location="cpu", weights_only=True)
    except UserError:
        raise
    except Exception as error:  # torch raises many kinds, by where a file is cut
        if isinstance(error, OSError) and error.strerror:
            raise UserError(f"{path} cannot be read ({error.strerror}); check the path.") from error
        if foreign := sealed.foreign_type(error):
            raise UserError(
                f"{path} holds a {foreign}, which {types_of} does not save there and which could run"
                " code. It was not loaded; check --from, or get the file from its authors."
            ) from error
        raise UserError(
            f"{path} is damaged, or no file of torch.save; get it again, or save its content with torch.save."
        ) from error


def is_torch_file(path: Path) -> bool:
    """Is this a file of torch.save or another pickle, and no text?"""
    with open(path, "rb") as file:
        start = file.read(4)
    return start == b"PK\x03\x04" or start[:1] == b"\x80"  # an archive, or a pickle
