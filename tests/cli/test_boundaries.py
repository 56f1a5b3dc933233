"""The least and the largest number of every option in real commands: they run, or say in one sentence why not.

Wrong numbers are refused by the parser (tests/test_ranges.py); here a number that the table of ranges allows must not
end in a traceback or kill the process. Several options are given at a time, and singly where that does not run.
"""

import re
from pathlib import Path

import inputs  # it reads what is registered
import pytest
from bases import Bases, is_tried
from in_forks import run_forked
from warm import Done

OPTIONS = inputs.numeric_options()
AT_ONCE = 8
QUICK = [("optimizer", "adam"), ("criterion", "label_smoothed_cross_entropy"), ("command", "preprocess")]


def forked(*command, log: Path) -> Done:
    return run_forked([*map(str, command)], log)


@pytest.fixture(scope="module")
def bases(user_dir, tmp_path_factory):
    return Bases(forked, tmp_path_factory.mktemp("boundaries"), user_dir)


@pytest.mark.parametrize(
    "part",
    [part if part in QUICK else pytest.param(part, marks=pytest.mark.slow) for part in OPTIONS if is_tried(part)],
    ids=lambda part: "-".join(part),
)
def test_every_number_that_is_allowed_runs_or_is_refused(part, bases):
    given = [f"{flag}={value}" for flag, action in OPTIONS[part].items() for value in inputs.right_values(action.dest)]
    groups = -(-len(given) // AT_ONCE)
    wrong = {}
    for group in (given[number::groups] for number in range(groups)):  # neighbours often depend on each other
        for option in not_honoured(part, group, bases):
            done = bases.try_options(part, [option])
            if done.verdict not in ("honoured", "refused"):
                wrong[option] = f"{done.verdict}: {done.output[-300:]}"
    assert not wrong, "\n".join(f"{option}: {what}" for option, what in wrong.items())


def not_honoured(part, group: list[str], bases) -> list[str]:
    """The rest of a group that does not run together, without those whose flag is the one that a sentence refused."""
    while group:
        done = bases.try_options(part, group)
        if done.verdict == "honoured":
            return []
        named = [option for option in group if re.search(rf"{option.split('=')[0]}(?![\w-])", " ".join(done.told))]
        if done.verdict != "refused" or len(named) != 1:
            return group
        group = [option for option in group if option not in named]
    return []
