"""The head of a measured page, its tables, and its file."""

import datetime
import platform
import sys
from pathlib import Path

import paths  # noqa: F401  finds the suite

from fairseq_plugins.tools.lib.markdown_text import table  # noqa: F401  for those who import this


def head(title: str, question: str, setup: str, command: str = "", variables: str = "") -> str:
    """Title, question, set-up and command of a page.

    Args:
        command: in place of this script with its arguments
        variables: in front of the command
    """
    command = command or " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    told = f"**Question.** {question}\n**Set-up.** {datetime.date.today()}, {setup}"
    return f"# {title}\n\n{told}\n\n    {variables}{command}"


def python() -> str:
    return f"Python {platform.python_version()}"


def cpu() -> str:
    return f"CPU ({platform.machine()})"


def show(page: str, output: Path | None) -> None:
    """Print a page. A file has it in place of all above its first section; its sections remain."""
    print(page)
    if output is None:
        return
    below = output.read_text().partition("\n\n## ")[2] if output.exists() else ""
    output.write_text(page + (f"\n\n## {below}" if below else "\n"))
