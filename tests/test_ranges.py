"""Every option for numbers has been looked at: it stands in the table of ranges, and is held against it."""

import argparse
import math
import re
from pathlib import Path

import pytest

from fairseq_plugins.compat.command_line import hold_to_ranges
from fairseq_plugins.errors import UserError
from fairseq_plugins.options.ranges import OURS, RANGES, RATE, SEED, above, check, number, whole

ROOT = Path(__file__).resolve().parent.parent

import inputs  # noqa: E402  (it reads what is registered)

OPTIONS = [(part, flag, action) for part, found in inputs.numeric_options().items() for flag, action in found.items()]


@pytest.mark.parametrize(
    "range, right, wrong",
    [
        (whole(1), [1, 7], [0, 1.5, math.nan, math.inf, "1", True, None]),
        (whole(1, also=(-1,)), [-1, 1], [0, -2]),
        (number(), [-3.5, 0, 10], [math.nan, math.inf, -math.inf]),
        (number(0, infinite=True), [0, math.inf], [-0.1, -math.inf, math.nan]),
        (above(0), [0.1], [0, -1]),
        (RATE, [0, 0.5, 1], [-0.1, 1.1]),
        (
            number(0, 1, below=True, several=2),
            [(0.9, 0.98), [0, 0]],
            [(0.9,), (0.9, 1), 0.9, "0.9,0.9", (0.9, math.nan)],
        ),
        (number(0, several=None), [[0.1], (0.1, 0.2), 0.3], [[], [0.1, -1]]),
    ],
)
def test_what_a_range_allows(range, right, wrong):
    assert all(map(range.allows, right))
    assert not any(map(range.allows, wrong))


@pytest.mark.parametrize(
    "range, words",
    [
        (whole(1), "a whole number of at least 1"),
        (whole(1, also=(-1,)), "a whole number of at least 1, or -1"),
        (SEED, "a whole number from 0 to 4000000000"),
        (number(), "a finite number"),
        (above(0), "a number above 0"),
        (number(0, 1, below=True), "a number of at least 0 and below 1"),
        (number(0, several=2), "2 numbers of at least 0, with commas between them"),
        (whole(1, several=None), "one or more whole numbers of at least 1, with commas between them"),
    ],
)
def test_what_a_range_says(range, words):
    assert str(range) == words


def test_an_option_of_no_table_may_be_any_number():
    check("unheard_of", -3.5)
    with pytest.raises(UserError, match="--unheard-of nan does not fit"):
        check("unheard_of", math.nan)


def test_there_are_options():
    """A parser that gives none away would let everything below pass."""
    kinds = {part.kind for part, _, _ in OPTIONS}
    assert kinds >= {"command", "task", "model", "criterion", "optimizer", "lr_scheduler"}
    assert len(OPTIONS) > 200


def test_somebody_has_looked_at_every_option():
    """If this fails, put the option into RANGES, with the numbers that make sense for it."""
    assert sorted({flag for _, flag, action in OPTIONS if action.dest not in RANGES}) == []
    assert sorted(inputs.numbers_taken_as_text() - {action.dest for _, _, action in OPTIONS}) == []


def test_the_table_names_no_option_that_is_gone():
    assert sorted(set(RANGES) - {action.dest for _, _, action in OPTIONS} - {"lamb_betas"}) == []
    assert set(OURS) <= set(RANGES)


@pytest.mark.parametrize("part, flag, action", OPTIONS, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_numbers_are_refused_and_right_ones_taken(part, flag, action):
    kind, names = action.type, "/".join(action.option_strings)
    parser = argparse.ArgumentParser()
    parser._add_action(action)
    try:
        hold_to_ranges(parser)
        for value in inputs.wrong_values(action.dest):
            with pytest.raises(UserError) as refused:
                parser.parse_args([f"{flag}={value}"])
            assert re.fullmatch(rf"{names}:? {re.escape(value)} does not fit; give .*\.", str(refused.value))
        for value in inputs.right_values(action.dest):
            parser.parse_args([f"{flag}={value}"])
    finally:
        action.type = kind


@pytest.mark.parametrize("folder", ["fairseq_plugins/tools", "preprocess"])
def test_no_tool_takes_just_any_number(folder):
    """Their options have types with a range."""
    files = sorted((ROOT / folder).rglob("*.py"))
    calls = [
        call for file in files for call in re.findall(r"add_argument\(.*?\n", file.read_text().replace(",\n", ","))
    ]
    assert len(calls) > 20
    assert [call for call in calls if re.search(r"type=(int|float)\b", call)] == []


@pytest.mark.parametrize("text, value", [("3", 3), ("0", None), ("x", None), ("1.5", None), ("nan", None)])
def test_a_range_is_a_type_of_argparse(text, value, capsys):
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=whole(1))
    if value is not None:
        assert parser.parse_args(["--layers", text]).layers == value
        return
    with pytest.raises(SystemExit):
        parser.parse_args(["--layers", text])
    assert f"argument --layers: {text} does not fit; give a whole number of at least 1" in capsys.readouterr().err
