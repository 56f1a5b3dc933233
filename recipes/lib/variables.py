"""Refuse variables that this recipe does not read.

    python recipes/lib/variables.py CORPUS SPLIT_STREAMS --later recipes/feedback/fig9_depth.sh

The words are the variables that a recipe reads, and --later files with variables that it declares later. A variable
that is set, and that only other recipes read, is refused, and so is SEED where the recipe reads SEEDS. Names that other
programs also use are not refused; a message says that they are ignored.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("read", nargs="*", metavar="VARIABLE", help="a variable that the recipe reads")
    parser.add_argument("--later", nargs="*", type=Path, default=[], metavar="FILE", help="a file with more of them")
    parser.add_argument("--flags", default="", metavar="TEXT", help="the user's flags for every training")
    args = parser.parse_args()
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
    return set().union(*map(declared, RECIPES.rglob("*.sh")))


def declared(file: Path) -> set[str]:
    return set(NAME.findall(file.read_text(encoding="utf-8")))


def listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


if __name__ == "__main__":
    main()
