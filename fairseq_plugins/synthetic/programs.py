"""Programs of simple statements. The model has to follow their state to predict their output (Feedback paper, section
7.4).

    x = 5 ; y = 2 ; if x > y : x -- ; print x ; ... END        the label of this print is at its ";": 4

Where the paper is not specific, this follows its code: an impossible statement is drawn again as a whole; conditions
use < and > only; a variable that is set under a condition that does not hold has no value afterwards, so it may be set
again.
"""

from collections.abc import Sequence
from random import Random

from fairseq_plugins.synthetic.episodes import Episode, Kind

LEAST, LARGEST = 1, 10
VALUES = tuple(str(value) for value in range(LEAST, LARGEST + 1))
OPERATIONS = ("=", "++", "--", "if", "print")
NESTED = ("=", "++", "--")
STEPS = {"++": 1, "--": -1}
COMPARISONS = {"<": int.__lt__, ">": int.__gt__, "==": int.__eq__}


def kind(variables: str, comparisons: tuple[str, ...] = ("<", ">")) -> Kind:
    """Programs whose variables are single letters. The length of a program is its number of statements."""
    vocabulary = (*variables, *VALUES, "=", *STEPS, "if", ":", *comparisons, "print", ";", "END")
    return Kind(
        lambda draw, length: program(draw, variables, comparisons, length), vocabulary, 100, 100, variables_assigned
    )


def variables_assigned(symbols: Sequence[str]) -> list[str]:
    """For every symbol, how many variables are assigned before it, also under conditions that do not hold."""
    names: set[str] = set()
    counts = []
    for place, symbol in enumerate(symbols):
        counts.append(str(len(names)))
        if symbol == "=":
            names.add(symbols[place - 1])
    return counts


def program(draw: Random, variables: str, comparisons: tuple[str, ...], statements: int) -> Episode:
    state: dict[str, int] = {}
    symbols: list[str] = []
    labels: list[str | None] = []
    for _ in range(statements):
        symbols += statement(draw, variables, comparisons, state)
        labels += [None] * (len(symbols) - len(labels))
        if symbols[-3] == "print":
            labels[-1] = str(state[symbols[-2]])
    return Episode([*symbols, "END"], [*labels, None])


def statement(draw: Random, variables: str, comparisons: tuple[str, ...], state: dict[str, int]) -> list[str]:
    """The symbols of a statement that is possible in a state (variable -> value). The state is changed."""
    while True:
        operation = draw.choice(OPERATIONS)
        if operation in NESTED:
            symbols = simple(draw, operation, variables, state)
        elif operation == "print":
            symbols = ["print", draw.choice(list(state)), ";"] if state else None
        else:
            symbols = conditional(draw, variables, comparisons, state)
        if symbols:
            return symbols


def simple(draw: Random, operation: str, variables: str, state: dict[str, int]) -> list[str] | None:
    """An assignment or a step; None if it is impossible."""
    if operation == "=":
        if not (free := [name for name in variables if name not in state]):
            return None
        name = draw.choice(free)
        state[name] = draw.randint(LEAST, LARGEST)
        return [name, "=", str(state[name]), ";"]
    if not state:
        return None
    name = draw.choice(list(state))
    after = state[name] + STEPS[operation]
    if not LEAST <= after <= LARGEST:
        return None
    state[name] = after
    return [name, operation, ";"]


def conditional(draw: Random, variables: str, comparisons: tuple[str, ...], state: dict[str, int]) -> list[str] | None:
    """A condition and a simple statement that is possible now. The state changes only if the condition holds."""
    if draw.random() < 0.5:
        if len(state) < 2:
            return None
        left, right = draw.sample(list(state), 2)
        other = state[right]
    else:
        if not state:
            return None
        left, other = draw.choice(list(state)), draw.randint(LEAST, LARGEST)
        right = str(other)
    comparison = draw.choice(comparisons)
    reached = state if COMPARISONS[comparison](state[left], other) else dict(state)
    while not (nested := simple(draw, draw.choice(NESTED), variables, reached)):
        pass
    return ["if", left, comparison, right, ":", *nested]
