"""Runs programs of the algorithmic task, written from the description of the language alone."""

from typing import NamedTuple


class Statement(NamedTuple):
    """A statement that was run.

    Attributes:
        words: as written, without the ";"
        initialised: how many variables had a value before it
        holds: whether its condition held; None without one
        nested: the operation that depends on the condition
    """

    words: list[str]
    initialised: int
    holds: bool | None = None
    nested: str | None = None

    @property
    def operation(self) -> str:
        return self.words[0] if self.words[0] in ("if", "print") else self.words[1]


def run(program: str) -> tuple[list[str], list[Statement]]:
    """The labels of a program, one a word and "_" for none, and its statements.

    Raises:
        AssertionError: it breaks a rule of the task
    """
    values, labels, done = {}, [], []
    *statements, end = program.split(" ;")
    assert end.split() == ["END"]
    for words in map(str.split, statements):
        labels += ["_"] * (len(words) + 1)
        if words[0] == "print":
            labels[-1] = str(values[words[1]])
            done.append(Statement(words, len(values)))
        elif words[0] == "if":
            colon = words.index(":")
            _, left, comparison, right = words[:colon]
            a, b = values[left], int(right) if right.isdigit() else values[right]
            holds = {"<": a < b, ">": a > b, "==": a == b}[comparison]
            assert left != right and 1 <= b <= 10
            done.append(Statement(words, len(values), holds, words[colon + 2]))
            change(values if holds else dict(values), words[colon + 1 :])
        else:
            done.append(Statement(words, len(values)))
            change(values, words)
    return [*labels, "_"], done


def change(values: dict[str, int], words: list[str]) -> None:
    variable, operation, *value = words
    if operation == "=":
        assert variable not in values
        values[variable] = int(*value)
    else:
        values[variable] += {"++": 1, "--": -1}[operation]
    assert 1 <= values[variable] <= 10
