"""Run a command of a recipe, or print it in a dry run.

A word that begins with $( is late: it is shell code, and its output is known only when earlier commands have run. The
flags that were tuned are an example. A late word is replaced by its output just before the command starts.

A dry run writes each command into two files. In SCRIPT it is a line of a shell script, and late words stay as they are.
In COMMANDS it is a line for the parser that checks it: the recipe's line (WHERE), a tab, and the command without late
words.
"""

import os
import re
import shlex
import subprocess
import sys

import say

PLAIN = re.compile(r"[\w./:=,@%+-]+")


def is_dry() -> bool:
    return os.environ.get("DRY_RUN", "0") != "0"


def typed(words: list[str]) -> str:
    """The command as a user would type it."""
    return " ".join(word if is_late(word) or PLAIN.fullmatch(word) else shlex.quote(word) for word in words)


def is_late(word: str) -> bool:
    return word.startswith("$(")


def resolved(words: list[str]) -> list[str]:
    """The words, with each late word replaced by its output. A dry run leaves it out if the output is not known yet."""
    found = []
    for word in words:
        found += evaluate(word) if is_late(word) else [word]
    return found


def evaluate(word: str) -> list[str]:
    """The output of a late word, split at white space. It is empty in a dry run if the shell code fails."""
    done = subprocess.run(["bash", "-ec", f"words={word}; echo $words"], capture_output=True, text=True)
    if done.returncode and not is_dry():
        say.stop(f"{word} failed: {done.stderr.strip()}")
    return done.stdout.split()


def dry_run(words: list[str], before: str = "", after: str = "") -> None:
    """Write a command of a dry run into both files. In the script, the texts before and after surround it."""
    print_line(before + typed(words) + after)
    append("COMMANDS", f"{os.environ['WHERE']}\t{shlex.join(resolved(words))}")


def print_line(text: str) -> None:
    append("SCRIPT", text)


def append(variable: str, text: str) -> None:
    with open(os.environ[variable], "a") as file:
        file.write(f"{text}\n")


def main():
    """Run the command after ``--``, or print it."""
    words = sys.argv[sys.argv.index("--") + 1 :]
    if is_dry():
        dry_run(words)
        return
    words = resolved(words)
    say.say(typed(words))
    sys.exit(subprocess.run(words).returncode)


if __name__ == "__main__":
    main()
