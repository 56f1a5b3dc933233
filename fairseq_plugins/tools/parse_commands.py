"""Pass commands through their own parsers without running them: the dry run of a recipe.

    python -m fairseq_plugins.tools.parse_commands commands.txt

Each line is FILE:LINE, a tab, and a command as it would be typed: fairseq-*, python -m MODULE, python SCRIPT, any of
them behind torchrun. A command is started in this process as usual and stopped when it has parsed its command line;
fairseq's are also taken through the architecture's defaults and, once for all that differ in numbers and files alone,
fairseq's check of types. So a misspelt flag, a choice that does not exist and a missing flag are found in seconds,
whether or not data and checkpoints are there.
"""

import argparse
import contextlib
import io
import logging
import runpy
import shlex
import sys
import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from textwrap import shorten
from unittest import mock

from fairseq_plugins.tools.lib.command import Command


class Parsed(BaseException):
    """The command line was right. No Exception: a command that catches its errors must not catch this.

    Attributes:
        parser, options: the parser and its result; of fairseq's commands with the architecture's defaults
    """

    def __init__(self, parser: argparse.ArgumentParser, options: argparse.Namespace):
        super().__init__()
        self.parser, self.options = parser, options


class Refused(Exception):
    """The command line was wrong. The text is the command's own message."""


def main():
    parser = Command(__doc__)
    parser.add_argument("commands", type=Path, help="file with one command a line")
    lines = parser.parse().commands.read_text(encoding="utf-8").splitlines()
    logging.disable()
    refused = 0
    checked: set[frozenset] = set()
    for line in lines:
        where, _, command = line.partition("\t")
        try:
            parse(shlex.split(command), checked)
        except Refused as error:
            refused += 1
            print(f"{where}: error: {shorten(str(error), 300)}\n  {command}", file=sys.stderr)
    print(f"{len(lines)} commands parsed, {refused} refused")
    sys.exit(1 if refused else 0)


def parse(words: list[str], checked: set[frozenset] | None = None) -> Parsed:
    """Parse one command.

    Args:
        checked: the `types` that fairseq has checked, which is added to; None: without that check

    Raises:
        Refused: its parser refused it, or there is no such command.
    """
    _, words = launched(words)
    start, words = command(words)
    try:
        with refusing(), stop_after_parsing(checked), mock.patch.object(sys, "argv", words):
            start()
    except Parsed as parsed:
        return parsed
    raise Refused("it ended without parsing its command line")


def launched(words: list[str]) -> tuple[int, list[str]]:
    """How many processes torchrun starts on all nodes, 1 without it, and the command that each of them is."""
    if words[0] != "torchrun":
        return 1, words
    from torch.distributed.run import get_args_parser as torchrun_parser

    with refusing(), mock.patch.object(sys, "argv", words):
        launch = torchrun_parser().parse_args(words[1:])
    processes = int(launch.nproc_per_node) * int(launch.nnodes.partition(":")[0])
    return processes, [launch.training_script, *launch.training_script_args]


def command(words: list[str]):
    """A function that starts the command, and its ``sys.argv``."""
    program, *rest = words
    if program == "python" and rest[:1] == ["-m"]:
        return lambda: run_module(rest[1]), rest[1:]
    if program == "python" and rest:
        return lambda: run_script(rest[0]), rest
    if script := console_script(program):
        return script.load(), words
    raise Refused(f"{program} is no command that could be parsed")


@cache
def console_script(name: str) -> EntryPoint | None:
    """Kept, since every search reads the metadata of all packages."""
    return next(iter(entry_points(group="console_scripts", name=name)), None)


def run_module(name: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)  # others of its package imported it
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def run_script(path: str) -> None:
    with mock.patch.object(sys, "path", [str(Path(path).parent), *sys.path]):
        runpy.run_path(path, run_name="__main__")


@contextlib.contextmanager
def refusing():
    """A command that ends here was refused: by its parser, whose last line on stderr says why, or by a check of types
    and values."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except SystemExit as end:
        raise Refused((said.getvalue() or str(end)).strip().splitlines()[-1]) from None
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


@contextlib.contextmanager
def stop_after_parsing(checked: set[frozenset] | None):
    """``Parsed`` is raised by the first complete parse: argparse's, or fairseq's, which wraps two of argparse's."""
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    parse_args, parse_with_arch = argparse.ArgumentParser.parse_args, options.parse_args_and_arch

    def parse_and_stop(parser, *args, **kwargs):
        raise Parsed(parser, parse_args(parser, *args, **kwargs))

    def parse_with_arch_and_stop(parser, *args, **kwargs):
        with mock.patch.object(argparse.ArgumentParser, "parse_args", parse_args):
            parsed = parse_with_arch(parser, *args, **kwargs)
            if checked is not None and (kind := types(parsed, parser)) not in checked:
                convert_namespace_to_omegaconf(parsed)  # half a second
                checked.add(kind)
        raise Parsed(parser, parsed)

    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", parse_and_stop),
        mock.patch.object(options, "parse_args_and_arch", parse_with_arch_and_stop),
    ):
        yield


def types(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> frozenset:
    """The options that are words, and the types of all others: numbers, files, lists. Architectures of one model and
    the splits that are evaluated are one word. So are all choices of an option, of which argparse knows which are
    allowed, unless the choice is a class with options of its own."""
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY
    from fairseq.registry import REGISTRIES

    model = ARCH_MODEL_NAME_REGISTRY.get(getattr(parsed, "arch", None))
    given = {**vars(parsed), "arch": model, "gen_subset": "any"}
    chosen = {action.dest for action in parser._actions if action.choices} - {"task", "arch", *REGISTRIES}

    def kind(name, value):
        is_word = isinstance(value, str) and "/" not in value and not value.endswith(".pt")
        return value if is_word and name not in chosen else type(value)

    return frozenset((name, kind(name, value)) for name, value in given.items())


if __name__ == "__main__":
    main()
