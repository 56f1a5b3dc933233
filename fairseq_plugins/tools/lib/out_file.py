"""The files that tools write. A tool writes only files with its own endings, so no result takes the place of a
checkpoint, a table or a log that was named by mistake. It does not write into a file that it reads."""

import argparse
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.files.whole import NotWritten, followed

OF_A_MODEL = ("prepared_text.json", "encoder.json")  # files beside data and checkpoints, which are no results


class OutFile:
    """A type for argparse: the path of a file whose name has one of these endings. A link gives the path that it leads
    to."""

    def __init__(self, *endings: str):
        self.endings = endings

    def __call__(self, name: str) -> Path:
        path = Path(name)
        if path.is_dir():
            raise argparse.ArgumentTypeError(f"{name!r} is a folder; give the name of a file")
        if path.suffix.lower() not in self.endings:
            endings = " or ".join(self.endings)
            raise argparse.ArgumentTypeError(f"{name!r} is no name of a file that ends in {endings}; give one")
        if path.name in OF_A_MODEL:
            raise argparse.ArgumentTypeError(f"{name!r} is the name of a file of a model or its data; give another one")
        try:
            return followed(path)
        except NotWritten as error:
            raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None


JSON = OutFile(".json")
CHECKPOINT = OutFile(".pt")
HTML = OutFile(".html")
PICTURE = OutFile(".png", ".pdf", ".svg")
ANIMATION = OutFile(".gif")


WRITTEN = ("json", "out", "output")  # the arguments that name files to write; all others may name files to read


def refuse_inputs(args: argparse.Namespace) -> None:
    """
    Raises:
        UserError: a file would be read and written
    """
    printed = os.fstat(1)
    if stat.S_ISREG(printed.st_mode) and os.path.samestat(os.fstat(0), printed):
        raise UserError("standard output goes into the file of standard input; send it to another file.")
    written = {flag(name): path for name in WRITTEN if (path := getattr(args, name, None))}
    others = [value for name, value in vars(args).items() if name not in WRITTEN]
    for path in (Path(part) for value in others for part in parts_of(value) if os.path.isfile(part)):
        for name, output in written.items():
            if os.path.exists(output) and path.samefile(output):
                raise UserError(f"{name} {output} is read, and would be replaced; name another file.")
        if os.path.samestat(path.stat(), printed):
            raise UserError(f"standard output goes into {path}, which is read; send it to another file.")


def parts_of(value) -> Iterator[str]:
    """The words in the value of an argument that may name a file: a, NAME=a, NAME=SIZE:a."""
    for word in value if isinstance(value, list | tuple) else [value]:
        if isinstance(word, str | Path):
            name = str(word).rpartition("=")[2]
            yield from (str(word), name, name.partition(":")[2])
