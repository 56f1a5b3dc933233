"""Options as fields of a dataclass, of which fairseq makes flags."""

from dataclasses import field
from typing import Any


def option(default: Any, help: str) -> Any:
    """A field with a default and a help text."""
    return field(default=default, metadata={"help": help})


def no_data() -> Any:
    """The field of a task's positional argument, which such a task leaves out: argparse_const makes it optional."""
    return field(default="", metadata={"help": "leave it out: there are no data", "argparse_const": ""})
