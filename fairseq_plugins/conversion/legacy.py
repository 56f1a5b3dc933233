"""Modules in torch.save's format of before zip files.

There the class of a module is ("module", class, file, source text) as a persistent id of the pickle, like a storage.
torch's safe loader takes storages only. Here the class alone remains in its place, and the loader looks it up in its
list as it does with any other.
"""

from io import BytesIO
from pickletools import genops
from typing import BinaryIO, NamedTuple

BEFORE = 3  # pickles before that of the object: a magic number, the version of the format, and the machine


class Operation(NamedTuple):
    """An operation of a pickle: its name, its argument and its bytes."""

    name: str
    argument: object
    code: bytes

    @property
    def memoises(self) -> bool:
        return self.name in ("BINPUT", "LONG_BINPUT")


def without_sources(file: BinaryIO) -> BinaryIO:
    """A file of torch.save at its beginning, without the sources of classes. Raises ValueError if it is neither a zip
    file nor a sequence of pickles."""
    zipped = file.read(2) == b"PK"
    file.seek(0)
    if zipped:
        return file
    for _ in range(BEFORE):
        read_operations(file)
    begin = file.tell()
    operations = read_operations(file)
    plain = with_plain_classes(operations)
    if len(plain) == len(operations):
        file.seek(0)
        return file
    rest = file.read()
    file.seek(0)
    return BytesIO(file.read(begin) + b"".join(operation.code for operation in plain) + rest)


def read_operations(file: BinaryIO) -> list[Operation]:
    """The operations of the pickle that begins here. The file is then at its end."""
    begin = file.tell()
    found = [(operation.name, argument, place or 0) for operation, argument, place in genops(file)]
    ends = [*(place for *_, place in found[1:]), file.tell()]
    file.seek(begin)
    return [Operation(name, argument, file.read(end - place)) for (name, argument, place), end in zip(found, ends)]


def with_plain_classes(operations: list[Operation]) -> list[Operation]:
    """The same pickle with a class wherever it had ("module", class, file, source text)."""
    kept: list[Operation] = []
    marks: list[int] = []
    begin = 0  # of the last tuple
    module: object = None  # where the pickle memoised the word "module"
    for operation in operations:
        if operation.name == "MARK":
            marks.append(len(kept))
        elif operation.name in ("TUPLE", "APPENDS", "SETITEMS") and marks:
            begin = marks.pop()
        elif operation.name == "BINPERSID":
            first, second, *_ = [*kept[begin + 1 :], operation, operation]
            if first.argument == "module" and second.memoises:
                module = second.argument
            if first.argument == "module" or first.name in ("BINGET", "LONG_BINGET") and first.argument == module:
                kept[begin:] = the_class(kept[begin:])
                continue
        kept.append(operation)
    return kept


def the_class(operations: list[Operation]) -> list[Operation]:
    """Of the operations that build a tuple, those that name a class."""
    for place, operation in enumerate(operations):
        if operation.name == "GLOBAL":
            return operations[place : place + 1 + operations[place + 1].memoises]
    raise ValueError("a module of the pickle has no class")
