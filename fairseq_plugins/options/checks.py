"""Checks of the options that a model, a task or an optimiser is built with.

The parsers of commands check numbers, too. These checks are for options from Python and from checkpoints.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from types import NoneType
from typing import Any, Union, get_args, get_origin

from fairseq_plugins.errors import UserError, flag
from fairseq_plugins.options import ranges

KINDS = {int: "a whole number", float: "a number", bool: "True or False", str: "text in quotes", NoneType: "None"}


def check_fields(args, options: type) -> None:
    """Raises UserError if a value has another type than its field, or a number is out of its option's range. The
    options are the fields of a dataclass."""
    for field in own_fields(options):
        kinds = get_args(field.type) if get_origin(field.type) is Union else (field.type,)
        value = getattr(args, field.name)
        if not any(fits(value, kind) for kind in kinds):
            words = " or ".join(KINDS.get(kind) or " or ".join(choices(kind)) for kind in kinds)
            raise UserError(f"{flag(field.name)} {value!r} does not fit; give {words}.")
    check_ranges(args, options)


def check_ranges(args, options: type) -> None:
    """Raises UserError for a number that is out of its option's range. The options are the fields of a dataclass."""
    names = (field.name for field in own_fields(options) if field.name in ranges.RANGES)
    check_numbers(args, *(name for name in names if isinstance(getattr(args, name), int | float)))


def check_numbers(args, *names: str) -> None:
    """Raises UserError for a number that is out of its option's range, and TypeError for text. Only --model-overrides
    and damaged checkpoints hold text here, and their reader names them."""
    for name in names:
        if isinstance(value := getattr(args, name), str):
            raise TypeError(f"{flag(name)} is the text {value!r}, not a number")
        ranges.check(name, value, ranges.OURS.get(name))


@contextmanager
def naming_flags(flags: str) -> Iterator[None]:
    """A ValueError of a module, which knows no flags, is a UserError that says which to look at."""
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{error}. See {flags}.") from error


def own_fields(options: type) -> Iterator[dataclasses.Field]:
    """The fields of a dataclass, without the options that belong to another part of fairseq."""
    return (field for field in dataclasses.fields(options) if not str(field.default).startswith("${"))


def fits(value: Any, kind: type) -> bool:
    if issubclass(kind, Enum):
        return str(value) in choices(kind)
    return type(value) is kind or (kind is float and type(value) is int)


def choices(kind: type[Enum]) -> list[str]:
    return [choice.value for choice in kind]


def check_heads(args, side: str = "decoder") -> None:
    """Raises UserError if no width of heads is given and the number of heads does not divide the width of the model."""
    if getattr(args, f"{side}_head_dim", None) is not None:
        return
    width, heads = (getattr(args, f"{side}_{name}") for name in ("embed_dim", "attention_heads"))
    if width % heads:
        or_this = f", or give --{side}-head-dim" if hasattr(args, f"{side}_head_dim") else ""
        raise UserError(
            f"--{side}-embed-dim {width} is not divisible by --{side}-attention-heads {heads}. Choose a multiple of"
            f" {heads}, for example {-(-width // heads) * heads}{or_this}."
        )
