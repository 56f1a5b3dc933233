"""Arguments that make no sense are refused, with the name of the option and the values that fit."""

import pytest


@pytest.mark.parametrize(
    "option, text",
    [("--max-ratio", "0"), ("--max-ratio", "nan"), ("--max-words", "0"), ("--bpe", "x"), ("--workers", "0")],
)
def test_a_script_refuses(option, text, refused, tmp_path):
    said = refused("parallel", "--raw", tmp_path, "--source", "en", "--target", "fr", "--out", tmp_path, option, text)
    assert f"argument {option}: {text} does not fit; give a" in said


def test_two_languages_are_two(refused, tmp_path):
    said = refused("parallel", "--raw", tmp_path, "--source", "de", "--target", "de", "--out", tmp_path / "out")
    assert said.endswith("--source and --target are both de; name the two languages.")
