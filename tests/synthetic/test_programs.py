"""Programs: the interpreter says the same labels, and they are distributed as those of the paper's code."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from interpreter import run

from fairseq_plugins.synthetic.synthetic_stream import KINDS

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
PROGRAMS = 1000  # of the 4000 whose frequencies are known
ERRORS = 4.5  # standard errors of ours and theirs together that a frequency may be off


def draw(name, programs, seed=1):
    """Programs and their labels as text."""
    random, kind = Random(seed), KINDS[name]
    for _ in range(programs):
        symbols, labels = kind.draw(random, kind.length)
        assert {*symbols, *filter(None, labels)} <= {*kind.vocabulary}
        yield " ".join(symbols), [label or "_" for label in labels]


@pytest.mark.parametrize("variables", [3, 5])
def test_the_programs_of_the_papers_code_say_their_labels(variables):
    programs = (GOLDENS / f"algo_programs_{variables}var.txt").read_text().splitlines()
    labels = (GOLDENS / f"algo_programs_{variables}var.labels.txt").read_text().splitlines()
    assert len(programs) == len(labels) == 20
    for program, expected in zip(programs, labels):
        assert run(program)[0] == expected.split()


@pytest.mark.parametrize("name", [name for name in KINDS if name.startswith("programs")])
def test_labels_are_what_a_program_prints(name):
    for program, labels in draw(name, 30):
        assert run(program)[0] == labels
        assert program.count(";") == 100


def test_conditions_are_equalities_where_that_is_wanted():
    assert not {"<", ">"} & {word for program, _ in draw("programs-3-equal", 5) for word in program.split()}
    assert "==" not in {word for program, _ in draw("programs-3", 5) for word in program.split()}


def shares(things):
    """Share of each thing, and the number of all."""
    counted = Counter(things)
    return {str(thing): number / counted.total() for thing, number in counted.items()}, counted.total()


def assert_shares(name, things, expected, theirs=None):
    """Frequencies agree with the expected ones, which are of so many things as are counted in them, or of `theirs`."""
    ours, number = shares(things)
    expected = dict(expected)
    theirs = expected.pop("count", theirs)
    assert ours.keys() == expected.keys(), name
    for thing, share in expected.items():
        error = (share * (1 - share) * (1 / number + 1 / theirs)) ** 0.5
        assert abs(ours[thing] - share) <= ERRORS * error + 1e-5, (name, thing, ours[thing], share)


@pytest.mark.parametrize("variables", [3, 5])
def test_programs_are_distributed_as_those_of_the_papers_code(variables):
    expected = json.loads((GOLDENS / f"algo_stats_{variables}var.json").read_text())
    programs = [program for program, _ in draw(f"programs-{variables}", PROGRAMS)]
    done = [run(program) for program in programs]
    statements = [statement for _, trace in done for statement in trace]
    conditions = [statement for statement in statements if statement.operation == "if"]
    theirs = expected["programs"] * 100

    assert_shares("statements", [s.operation for s in statements], expected["statement_share"], theirs)
    for number, share in expected["statement_share_by_initialised"].items():
        some = [s.operation for s in statements if s.initialised == int(number.split("_")[0])]
        assert_shares(number, some, share)
    operators = [c.words[2] for c in conditions]
    assert_shares("operators", operators, expected["comparison_operator"], theirs / 4)
    against = ["constant" if c.words[3].isdigit() else "variable" for c in conditions]
    assert_shares("against", against, expected["comparison_against"], theirs / 4)
    constants = [c.words[3] for c in conditions if c.words[3].isdigit()]
    assert_shares("constants", constants, expected["comparison_constant"], theirs / 8)
    nested = [c.nested for c in conditions]
    assert_shares("nested", nested, expected["nested_statement_share"], theirs / 4)
    values = [s.words[2] for s in statements if s.operation == "="]
    assert_shares("values", values, expected["initial_value"], theirs / 40)

    # shares that depend on the values of variables vary from program to program
    holds = [sum(s.holds or False for s in trace) / sum(s.holds is not None for s in trace) for _, trace in done]
    assert abs(mean(holds) - expected["condition_true"]["True"]) < ERRORS * 0.11 / PROGRAMS**0.5
    printed = [label for labels, _ in done for label in labels if label != "_"]
    ours, _ = shares(printed)
    assert all(abs(ours[value] - share) < 0.015 for value, share in expected["printed_value"].items())
    lengths = [len(program.split()) for program in programs]
    assert abs(mean(lengths) - expected["tokens_per_program"]["mean"]) < ERRORS * 22 / PROGRAMS**0.5
    prints = expected["prints_per_program"]
    assert abs(len(printed) / PROGRAMS - prints["mean"]) < ERRORS * prints["std"] / PROGRAMS**0.5


def mean(values):
    return sum(values) / len(values)


def test_variables_are_counted_where_they_are_assigned():
    symbols = "x = 5 ; if x < 3 : y = 2 ; print x ; END".split()
    counts = dict(zip(enumerate(symbols), KINDS["programs-3"].groups(symbols)))
    assert [counts[place, "x"] for place in (0, 5, 14)] == ["0", "1", "2"] and counts[10, "="] == "1"
