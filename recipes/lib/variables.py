"""Refuse variables that this recipe does not read, and values that are no whole numbers where it computes with them.

    python recipes/lib/variables.py CORPUS SPLIT_STREAMS --later recipes/feedback/fig9_depth.sh
    python recipes/lib/variables.py --values EPOCHS 8 ten SEEDS 1 '1 2'

The words are the variables that a recipe reads, and --later files with variables that it declares later. A variable
that is set, and that only other recipes read, is refused, and so is SEED where the recipe reads SEEDS. Names that other
programs also use are not refused; a message says that they are ignored.

With --values the words are the name, the default and the value of each variable. Where the default is whole numbers,
the value is, too, and each number is given once; bash goes on after an error in $(( )).
"""

import argparse
import os
import re
from pathlib import Path

import say

RECIPES = Path(__file__).resolve().parents[1]
NAME = re.compile(r"\[([A-Z][A-Z0-9_]*)\]=")  # of an array of lib.sh: SETTINGS+=([EPOCHS]=8)
ORDINARY = {
    "BATCH", "BATCHES", "BLOCK", "CHANGE", "CHECKPOINT", "CONTEXT", "CORPUS", "FILE", "FIXED", "FLAGS", "INTERVAL",
    "JOBS", "LENGTH", "PASS", "SHARDS", "SHARED", "SIZE", "SPAN", "SPLIT", "TASKS", "TIMES", "TOKENS", "TOTAL",
    "WIDTH",
}  # fmt: skip
REMOVED = {"ADAPTIVE", "FIXED"}  # recipes have read these before
NUMBERS = re.compile(r"[0-9]+( [0-9]+)*")
NUMBERS_WITHOUT_DEFAULT = {"PASS", "UPDATES", "TOTAL", "PHASE_1", "FINE_TUNING", "SPLIT_STREAMS"}
NUMBER_OR_WORD = {"BPE"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("read", nargs="*", metavar="VARIABLE", help="a variable that the recipe reads")
    parser.add_argument("--later", nargs="*", type=Path, default=[], metavar="FILE", help="a file with more of them")
    parser.add_argument("--flags", default="", metavar="TEXT", help="the user's flags for every training")
    parser.add_argument("--values", action="store_true", help="the words are names, defaults and values")
    args = parser.parse_args()
    if args.values:
        for name, default, value in zip(args.read[::3], args.read[1::3], args.read[2::3]):
            check_value(name, default, value)
    else:
        check_names(args)


def check_names(args) -> None:
    read = set(args.read).union(*map(declared, args.later))
    if "SEEDS" in read and " --seed" in args.flags:  # it names trainings by their seeds
        say.stop("--seed: set SEEDS in place of this flag.")
    singular = {name[:-1]: name for name in read if name.endswith("S") and not os.environ.get(name)}
    if slips := sorted(name for name in singular if os.environ.get(name)):
        say.stop(f"{slips[0]} would be ignored: this recipe reads {singular[slips[0]]}. Set that, or unset {slips[0]}.")
    unread = {name for name in suite() if os.environ.get(name)} - read
    there_are = f"this recipe reads {listed(sorted(read))}" if read else "this recipe reads none"
    if refused := sorted(unread - ORDINARY):
        way_out = " ".join(f"-u {name}" for name in refused)
        say.stop(f"{listed(refused)} would be ignored: {there_are}. Leave it out (env {way_out} unsets it).")
    for name in sorted(unread):
        say.say(f"the variable {name} is ignored: {there_are}.")


def suite() -> set[str]:
    """The variables of all recipes."""
    return REMOVED.union(*map(declared, RECIPES.rglob("*.sh")))


def declared(file: Path) -> set[str]:
    return set(NAME.findall(file.read_text(encoding="utf-8")))


def listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def check_value(name: str, default: str, value: str) -> None:
    if name in NUMBERS_WITHOUT_DEFAULT or NUMBERS.fullmatch(default) and name not in NUMBER_OR_WORD:
        numbers = [number(name, word) for word in value.split()]
        if twice := [each for each in numbers if numbers.count(each) > 1]:
            say.stop(f"{name}: {twice[0]} is given twice; give it once.")


def number(name: str, text: str) -> int:
    """The whole number that a variable holds."""
    # imported here: names are also checked by Pythons that are too old for the package
    from fairseq_plugins.options.ranges import whole

    try:
        value = whole(0)(text)
    except argparse.ArgumentTypeError as error:
        say.stop(f"{name}: {error}.")
    if text != str(value):  # bash reads 010 as 8
        say.stop(f"{name}: {text} does not fit; write {value}.")
    return value


if __name__ == "__main__":
    main()
