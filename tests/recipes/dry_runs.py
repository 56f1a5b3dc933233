"""What a dry run prints: a script that does the work, and how many commands there are."""

import re
import subprocess


def commands_of(done) -> list[str]:
    """The lines of a dry run that refused no command: they are a script, and every command is in it, one a line."""
    assert done.returncode == 0, done.stderr
    number = re.search(r"^(\d+) commands parsed, 0 refused$", done.stderr, re.MULTILINE)
    assert number, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "set -euo pipefail" and lines[1].startswith("cd ")
    assert not subprocess.run(["bash", "-n"], input=done.stdout, text=True).returncode
    commands = [line for line in lines if re.search(r"(^|\|\| )(fairseq-|torchrun |python )", line)]
    assert len(commands) == int(number[1]) > 0
    return commands
