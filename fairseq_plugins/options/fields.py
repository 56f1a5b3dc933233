"""Options as fields of a dataclass, of which fairseq makes flags."""

from dataclasses import field
from typing import Any


def option(default: Any, help: str) -> Any:
    """A field with a default and a help text."""
    return field(default=default, metadata={"help": help})
