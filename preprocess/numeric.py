"""Types for numeric options of argparse, which puts the name of the option before the error message."""

import math
from argparse import ArgumentTypeError


def whole(least: int):
    """A whole number of at least ``least``."""
    return _number(int, lambda value: value >= least, f"a whole number of at least {least}")


def number(least: float):
    """A finite number of at least ``least``."""
    return _number(float, lambda value: least <= value < math.inf, f"a number of at least {least:g}")


def share(text: str) -> float:
    """A number of at least 0 and below 1."""
    return _number(float, lambda value: 0 <= value < 1, "a number of at least 0 and below 1")(text)


def _number(kind, fits, words: str):
    def parse(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not fits(value):
            raise ArgumentTypeError(f"{text} does not fit; give {words}")
        return value

    return parse
