"""The values of settings that are text. They are data: nothing in them is run as code."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from fairseq_plugins.errors import UserError

OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
LONGEST, MOST = 10_000, 1_000  # characters of a setting, and items of a repeated list or string


def evaluate(text):
    """The value of a setting: "[1000] * 3 + [0.5]" -> [1000, 1000, 1000, 0.5]

    A setting consists of numbers, strings, None, True and False; lists, tuples and dictionaries of these; sums,
    differences, products and quotients. Names and calls are errors, so no code runs.

    Raises:
        UserError: the text is not such a setting
        TypeError: the argument is not a string; fairseq relies on this behaviour of ``eval``
    """
    if not isinstance(text, str):
        raise TypeError("a setting must be a string")
    try:
        if len(text) > LONGEST:
            raise ValueError("too long")
        return value_of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        shown = text if len(text) < 100 else f"{text[:100]}..."
        raise UserError(
            f"the setting {shown!r} could be code and was not evaluated: a setting is a number, a list, a tuple or a"
            " dictionary, or a sum or product of these. Correct the flag, or take another checkpoint."
        ) from error


def value_of(node: ast.expr | None):
    """The value of a part of a setting; raises ValueError for a part that is not allowed."""
    match node:
        case ast.Constant(value=int() | float() | str() | None as value):
            return value
        case ast.List(elts=parts):
            return [value_of(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(value_of(part) for part in parts)
        case ast.Dict(keys=keys, values=values):
            return {value_of(key): value_of(value) for key, value in zip(keys, values)}
        case ast.UnaryOp(op=sign, operand=part) if type(sign) in OPERATORS:
            return OPERATORS[type(sign)](value_of(part))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            left, right = value_of(left), value_of(right)
            if isinstance(sign, ast.Mult):
                check_product(left, right)
            return OPERATORS[type(sign)](left, right)
    raise ValueError(f"{type(node).__name__} is not allowed in a setting")


def check_product(left, right) -> None:
    """Raises ValueError for a list or string that is repeated so often that it could fill the memory."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, list | tuple | str) and isinstance(times, int) and len(sequence) * times > MOST:
            raise ValueError("too long")
