"""Run a command of a recipe.

A word that begins with $( is late: it is shell code, and its output is known only when earlier commands have run. The
flags that were tuned are an example. A late word is replaced by its output just before the command starts; in the
script of a dry run it stays as it is.
"""

import re
import shlex
import subprocess
import sys
from functools import cache

import say

PLAIN = re.compile(r"[\w./:=,@%+-]+")


def typed(words: list[str]) -> str:
    """The command as a user would type it."""
    return " ".join(word if is_late(word) or PLAIN.fullmatch(word) else shlex.quote(word) for word in words)


def is_late(word: str) -> bool:
    return word.startswith("$(")


def resolved(words: list[str], dry: bool = False) -> list[str]:
    """The words, with each late word replaced by its output. A dry run leaves it out if the output is not known yet."""
    found = []
    for word in words:
        found += evaluate(word, dry) if is_late(word) else [word]
    return found


@cache
def evaluate(word: str, dry: bool) -> list[str]:
    """The output of a late word, split at white space. It is empty in a dry run if the shell code fails."""
    done = subprocess.run(["bash", "-ec", f"words={word}; echo $words"], capture_output=True, text=True)
    if done.returncode and not dry:
        say.stop(f"{word} failed: {done.stderr.strip()}")
    return done.stdout.split()


def script(words: list[str]) -> tuple[list[str], list[str]]:
    """The command after ``--``, and its lines of a shell script."""
    _, command = say.split(words)
    return command, [typed(command)]


def main():
    _, words = say.split(sys.argv[1:])
    words = resolved(words)
    say.say(typed(words))
    sys.exit(subprocess.run(words).returncode)


if __name__ == "__main__":
    main()
