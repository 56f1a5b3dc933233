"""Refuse the variables of a user that should be whole numbers, and are not.

    python recipes/lib/whole_numbers.py EPOCHS 8 ten SEEDS 1 '1 2'

The words are the name, the default and the value of each variable. Where the default is whole numbers, the value is,
too, and each number is given once: recipes compute with them, and bash goes on after an error in $(( )).
"""

import re
import sys
from argparse import ArgumentTypeError

import say

from fairseq_plugins.options import ranges

WHOLE = ranges.whole(0)
NUMBERS = re.compile(r"[0-9]+( [0-9]+)*")
WITHOUT_DEFAULT = {"PASS", "UPDATES", "TOTAL", "PHASE_1", "FINE_TUNING", "SPLIT_STREAMS"}
OR_A_WORD = {"BPE"}


def main():
    words = sys.argv[1:]
    for name, default, value in zip(words[::3], words[1::3], words[2::3]):
        if name in WITHOUT_DEFAULT or NUMBERS.fullmatch(default) and name not in OR_A_WORD:
            numbers = [number(name, word) for word in value.split()]
            if twice := [each for each in numbers if numbers.count(each) > 1]:
                say.stop(f"{name}: {twice[0]} is given twice; give it once.")


def number(name: str, text: str) -> int:
    try:
        value = WHOLE(text)
    except ArgumentTypeError as error:
        say.stop(f"{name}: {error}.")
    if text != str(value):  # bash reads 010 as 8
        say.stop(f"{name}: {text} does not fit; write {value}.")
    return value


if __name__ == "__main__":
    main()
