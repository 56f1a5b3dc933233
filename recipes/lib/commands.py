"""A recipe's commands, which are run, or in a dry run printed.

In a word of a command that begins with $( the shell puts what is known when the commands before it have run, such as
the flags that were tuned. In a dry run every command becomes a line of the file SCRIPT, which does the same when the
shell runs it, and a line of the file COMMANDS, where such words have been replaced and the recipe's line (WHERE) stands
before it: that is what parsers can check.
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
    """The command as one would type it."""
    return " ".join(word if is_late(word) or PLAIN.fullmatch(word) else shlex.quote(word) for word in words)


def is_late(word: str) -> bool:
    return word.startswith("$(")


def resolved(words: list[str]) -> list[str]:
    """The words with the shell's in their places. What does not exist yet, in a dry run, is left out."""
    found = []
    for word in words:
        found += evaluate(word) if is_late(word) else [word]
    return found


def evaluate(word: str) -> list[str]:
    done = subprocess.run(["bash", "-ec", f"words={word}; echo $words"], capture_output=True, text=True)
    if done.returncode and not is_dry():
        say.stop(f"{word} failed: {done.stderr.strip()}")
    return done.stdout.split()


def dry_run(words: list[str], before: str = "", after: str = "") -> None:
    """Print a command of a dry run; before and after it stands what the shell does with it."""
    print_line(before + typed(words) + after)
    append("COMMANDS", f"{os.environ['WHERE']}\t{shlex.join(resolved(words))}")


def print_line(text: str) -> None:
    append("SCRIPT", text)


def append(variable: str, text: str) -> None:
    with open(os.environ[variable], "a") as file:
        file.write(f"{text}\n")


def main():
    """The command after ``--``, and nothing else."""
    words = sys.argv[sys.argv.index("--") + 1 :]
    if is_dry():
        dry_run(words)
        return
    words = resolved(words)
    say.say(typed(words))
    sys.exit(subprocess.run(words).returncode)


if __name__ == "__main__":
    main()
