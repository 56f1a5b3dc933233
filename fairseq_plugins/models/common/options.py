"""Checks of options that several models share."""

import dataclasses
from collections.abc import Iterable
from enum import Enum
from types import NoneType
from typing import Any, Union, get_args, get_origin

from fairseq_plugins.errors import UserError, flag

KINDS = {int: "a whole number", float: "a number", bool: "True or False", str: "text in quotes", NoneType: "None"}


def check_kinds(args, options: type) -> None:
    """Raises UserError for a value of another type than its field in the dataclass ``options``. Such values come from
    --model-overrides, which are not parsed as flags are."""
    for field in dataclasses.fields(options):
        if str(field.default).startswith("${"):  # an option of another part of fairseq
            continue
        kinds = get_args(field.type) if get_origin(field.type) is Union else (field.type,)
        value = getattr(args, field.name)
        if not any(fits(value, kind) for kind in kinds):
            words = " or ".join(KINDS.get(kind) or " or ".join(choices(kind)) for kind in kinds)
            raise UserError(f"{flag(field.name)} {value!r} does not fit; give {words}.")


def fits(value: Any, kind: type) -> bool:
    if issubclass(kind, Enum):
        return str(value) in choices(kind)
    return type(value) is kind or (kind is float and type(value) is int)


def choices(kind: type[Enum]) -> list[str]:
    return [choice.value for choice in kind]


def check_sizes(args, names: Iterable[str]) -> None:
    """Raises UserError for a size below 1."""
    for name in names:
        if getattr(args, name) < 1:
            raise UserError(f"{flag(name)} {getattr(args, name)} is too small; choose at least 1.")


def check_rates(args, names: Iterable[str]) -> None:
    """Raises UserError for a probability below 0 or above 1."""
    for name in names:
        if not 0 <= getattr(args, name) <= 1:
            raise UserError(f"{flag(name)} {getattr(args, name)} is out of range; choose a number from 0 to 1.")


def check_heads(args, side: str = "decoder") -> None:
    """Raises UserError if no width of heads is given and the number of heads does not divide the width of the model."""
    head_dim = getattr(args, f"{side}_head_dim", None)
    if head_dim is not None:
        return check_sizes(args, [f"{side}_head_dim"])
    width, heads = (getattr(args, f"{side}_{name}") for name in ("embed_dim", "attention_heads"))
    if width % heads:
        or_this = f", or give --{side}-head-dim" if hasattr(args, f"{side}_head_dim") else ""
        raise UserError(
            f"--{side}-embed-dim {width} is not divisible by --{side}-attention-heads {heads}. Choose a multiple of"
            f" {heads}, for example {-(-width // heads) * heads}{or_this}."
        )
