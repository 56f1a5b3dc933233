"""Numbers that make no sense for an option are refused with its name, what was given, and what to give."""

import argparse

import numeric
import pytest


@pytest.mark.parametrize(
    "kind, text, value",
    [
        (numeric.whole(1), "3", 3),
        (numeric.whole(0), "0", 0),
        (numeric.number(1), "1.5", 1.5),
        (numeric.whole(1), "0", None),
        (numeric.whole(1), "1.5", None),
        (numeric.whole(1), "many", None),
        (numeric.number(1), "0", None),
        (numeric.number(1), "nan", None),
        (numeric.number(1), "inf", None),
    ],
)
def test_numbers(kind, text, value):
    if value is None:
        with pytest.raises(argparse.ArgumentTypeError, match=f"{text} does not fit; give a"):
            kind(text)
    else:
        assert kind(text) == value


@pytest.mark.parametrize(
    "option, text",
    [("--max-ratio", "0"), ("--max-ratio", "nan"), ("--max-words", "0"), ("--bpe", "x"), ("--workers", "0")],
)
def test_a_script_refuses(option, text, script, tmp_path):
    done = script("parallel", "--raw", tmp_path, "--source", "en", "--target", "fr", "--out", tmp_path, option, text)
    assert done.returncode
    assert done.stderr.splitlines()[-1].startswith(
        f"parallel.py: error: argument {option}: {text} does not fit; give a"
    )


def test_two_languages_are_two(script, tmp_path):
    done = script("parallel", "--raw", tmp_path, "--source", "de", "--target", "de", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr == "parallel.py: error: --source and --target are both de; name the two languages.\n"
