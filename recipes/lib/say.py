"""Messages to the user: on stderr, after the name of the recipe.

Programs import this file first; then the package can be imported, too, without being installed.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

sys.path.append(str(Path(__file__).resolve().parents[2]))

signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends this program without a traceback


def say(text: str) -> None:
    print(f"{recipe()}: {text}", file=sys.stderr, flush=True)


def stop(text: str) -> NoReturn:
    """Print an error and exit with status 2."""
    print(f"{recipe()}: error: {text}", file=sys.stderr, flush=True)
    sys.exit(2)


def run(main: Callable[[], None]) -> None:
    """Run a program. An error that the user can correct is reported in one sentence, and ends it with status 2."""
    # not at the top of the file: options.py may run with a Python that is too old for the package
    from fairseq_plugins.startup import error_hook

    error_hook.run(main, recipe(), status=2)


def recipe() -> str:
    return os.environ.get("RECIPE", "recipe")


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """A program's own words, and the command after the first ``--``."""
    where = words.index("--")
    return words[:where], words[where + 1 :]
