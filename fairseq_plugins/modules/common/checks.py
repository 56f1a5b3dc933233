"""Checks of sizes and names that all families share.

H heads, C width of the model, D width of a head.
"""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def choose(what: str, name: str, table: Mapping[str, T]) -> T:
    """The entry of a table; `what` is named in the error.

    Raises:
        ValueError: the name is not in the table
    """
    if name not in table:
        raise ValueError(f"{what} {name!r} is not one of {', '.join(table)}")
    return table[name]


def head_width(embed_dim: int, heads: int, head_dim: int | None) -> int:
    """D: the given one, or C / H if it is None.

    Raises:
        ValueError: C is not divisible by H
    """
    if head_dim is not None:
        return head_dim
    if embed_dim % heads:
        raise ValueError(f"width {embed_dim} is not divisible by {heads} heads")
    return embed_dim // heads
