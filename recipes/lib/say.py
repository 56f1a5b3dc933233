"""What a recipe's helpers tell the user, on stderr and with the recipe's name before it."""

import os
import signal
import sys
from typing import NoReturn

signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt ends a helper without a traceback: the command has its own


def say(text: str) -> None:
    print(f"{recipe()}: {text}", file=sys.stderr, flush=True)


def stop(text: str) -> NoReturn:
    """End with status 2 and a sentence."""
    print(f"{recipe()}: error: {text}", file=sys.stderr, flush=True)
    sys.exit(2)


def recipe() -> str:
    return os.environ.get("RECIPE", "recipe")


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """A helper's own words, and the command after the first ``--``."""
    where = words.index("--")
    return words[:where], words[where + 1 :]
