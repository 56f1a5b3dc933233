"""The frame of a tool: its parser, the options that several tools have, and where it prints what."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib.out_file import JSON, refuse_inputs


class Command(argparse.ArgumentParser):
    """A parser whose description is the docstring of its tool."""

    def __init__(self, description: str | None = None, **options):
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def option(self, flag: str, kind: Callable, default, metavar: str, words: str, **more) -> None:
        """An option with a value. --help shows its default behind the words, unless it is None."""
        shown = words if default is None else f"{words} (%(default)s)"
        self.add_argument(flag, type=kind, default=default, metavar=metavar, help=shown, **more)

    def switch(self, flag: str, words: str) -> None:
        self.add_argument(flag, action="store_true", help=words)

    def add_cpu(self) -> None:
        self.switch("--cpu", "use the CPU even if there is a GPU")

    def add_int8(self) -> None:
        self.switch("--int8", "compute the output layer in eight bits: faster on a CPU, and not exact")

    def add_json(self, words: str = "write the figures there, too") -> None:
        self.option("--json", JSON, None, "FILE", f"{words} (.json)")

    def parse(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """The options of the command line. From now on libraries log warnings only, to standard error.

        Raises:
            UserError: a file would be read and written
        """
        args = self.parse_args(words)
        refuse_inputs(args)
        logging.basicConfig(format="%(message)s")  # fairseq's commands would log to standard output
        logging.disable(logging.INFO)  # also of loggers that are made, and given a level, later
        return args


def tell(sentence: str) -> None:
    """Say something on standard error: standard output is for results that other programs read."""
    print(sentence, file=sys.stderr)


def each_once(flag: str, paths: list[Path]) -> list[Path]:
    """The paths, if no two of them are the same file.

    Args:
        flag: their flag or name, for the error

    Raises:
        UserError: two are the same; as two runs they would show a spread that is too small
    """
    seen = set()
    for path in paths:
        if path.resolve() in seen:
            raise UserError(f"{flag}: {path} is named twice; give each run once.")
        seen.add(path.resolve())
    return paths
