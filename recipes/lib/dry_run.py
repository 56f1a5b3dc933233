"""Check the commands of a recipe with their own parsers, and print them as a shell script.

    python recipes/lib/dry_run.py QUEUE [COMMANDS]

QUEUE is what lib.sh would have called. It begins with the first lines of the script, by machine.py. Each call follows:
the recipe's line, the number of words, the name of a program in this folder, and its arguments. Each part ends with a
zero byte. With COMMANDS, nothing is checked: that file gets a line for each command. It is the recipe's line, a tab,
and the command without the words that are not known yet.
"""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import commands
import step
import training

SCRIPTS = {"commands": commands.script, "step": step.script, "training": training.script}


def main():
    queue, file = sys.argv[1:]
    script, checked = read(Path(queue).read_text())
    if file:
        Path(file).write_text(checked)
    else:
        check(checked)
    print(script, end="")


def read(queue: str) -> tuple[str, str]:
    """The shell script, and the lines for the parsers."""
    script, *words = queue.split("\0")[:-1]
    checked = ""
    for where, program, *arguments in calls(words):
        if program == "note":
            script += f"# {arguments[0]}\n"
            continue
        command, lines = SCRIPTS[program](arguments)
        script += "".join(f"{line}\n" for line in lines)
        checked += f"{where}\t{shlex.join(commands.resolved(command, dry=True))}\n"
    return script, checked


def calls(words: list[str]) -> Iterator[list[str]]:
    """The recipe's line and the words of each call."""
    rest = iter(words)
    for where in rest:
        yield [where, *(next(rest) for _ in range(int(next(rest))))]


def check(text: str) -> None:
    """End this program with status 1 if a parser refuses its command."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        parse = ["python", "-m", "fairseq_plugins.tools.parse_commands", file.name]
        if status := subprocess.run(parse, stdout=sys.stderr).returncode:
            sys.exit(status)


if __name__ == "__main__":
    main()
