"""The steps of a preparation, in one folder that is locked.

If the same command is given again, it skips the steps that are done (fairseq_plugins/files/steps.py). A finished folder
may be on a read-only disk.
"""

import argparse
import errno
import os
import sys
import time
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files import file_errors
from fairseq_plugins.files.steps import STAMPS, Step, lock
from fairseq_plugins.files.whole import content
from fairseq_plugins.options.ranges import whole
from fairseq_plugins.startup import error_hook
from fairseq_plugins.tools.lib.signs_of_life import SILENCE, Display

# errors for which Python gives no file name, or the temporary one
UNWRITABLE = {*file_errors.NOT_WRITTEN, errno.EIO}


class Steps:
    def __init__(self, out: Path):
        if os.pathsep in str(out):
            raise UserError(
                f"--out {out} has a '{os.pathsep}' in it, which separates folders for fairseq: leave it out."
            )
        self.out = out
        self.given: set[Path] = set()  # the user's files
        self.made: set[Path] = set()
        self.read_only = ""  # why nothing can be written, where all is done
        try:
            # two recipes may share their data: the second one waits, and then finds every step done
            self.lock = lock(out / STAMPS / "lock", f"--out {out}", lambda text: print(text, flush=True))
        except OSError as error:
            if error.errno not in {errno.EROFS, errno.EACCES} or not any((out / STAMPS).glob("*.json")):
                raise UserError(f"--out {out} cannot be filled ({error.strerror}): give another folder.") from error
            self.read_only = error.strerror

    def forget(self, *names: str) -> None:
        """Remove the outputs of steps of an earlier command that this command does not have."""
        for name in names:
            step = Step(name, self.out, [], [], {})
            if step.stamp.exists():
                self._check_writable(name)
                step.remove_made()
                step.stamp.unlink()

    def run(self, name, inputs, outputs, options, work) -> None:
        """Call ``work(*temporary_outputs)``, unless the step was done before. It returns a report of one line.

        Args:
            outputs: files or folders below ``out``
            options: everything beside the inputs that ``work`` depends on
        """
        self._keep_what_is_given(inputs, outputs)
        step = Step(name, self.out, inputs, outputs, options)
        if done := step.done():
            print(f"{name}: {done['report']} (done before)", flush=True)
            return
        self._check_writable(name)
        step.remove_made()
        started = time.monotonic()

        def watched(*partial: Path) -> str:
            # a progress bar may share the terminal, so the state does not come every second there
            with Display(Written(name, list(partial)), pause=SILENCE):
                return work(*partial)

        with writing(*outputs):
            report = step.run(watched)
        print(f"{name}: {report} ({time.monotonic() - started:.1f} s)", flush=True)

    def _keep_what_is_given(self, inputs: list[Path], outputs: list[Path]) -> None:
        """Tell the user's files from those that steps make.

        Raises:
            UserError: an output would take the place of a file that no step of this command has made
        """
        self.given.update(path for path in map(Path.resolve, inputs) if not _overlaps(path, self.made))
        for output in map(Path.resolve, outputs):
            if lost := _overlaps(output, self.given):
                raise UserError(
                    f"--out {self.out}: {output} would be written over raw text, {lost}: choose another folder."
                )
            self.made.add(output)

    def _check_writable(self, name: str) -> None:
        if self.read_only:
            raise UserError(
                f"--out {self.out} was prepared from other files or with other options, as its step {name} shows, and"
                f" cannot be written ({self.read_only}): give the options of its preparation, or another folder."
            )


def _overlaps(path: Path, others: set[Path]) -> Path | None:
    """The first of the others that is the path, lies in it, or has it in it."""
    return next((other for other in others if path.is_relative_to(other) or other.is_relative_to(path)), None)


class Written:
    """What a step has written so far."""

    def __init__(self, name: str, outputs: list[Path]):
        self.name, self.outputs, self.start = name, outputs, time.monotonic()

    def state(self, now: float) -> str:
        return f"{self.name}: {now - self.start:.0f} s so far, {_size(self.outputs) / 1e6:.1f} MB written"


def _size(paths: list[Path]) -> int:
    """Bytes in files, and in folders of files, that exist."""
    total = 0
    for file in list(chain.from_iterable(map(content, paths))):
        with suppress(OSError):  # it may be renamed or removed meanwhile
            total += file.stat().st_size
    return total


@contextmanager
def writing(*paths: Path):
    """If a file cannot be written in this context, name the files in the error, which the system's error does not.

    Raises:
        UserError: the system cannot write one of the files
    """
    try:
        yield
    except OSError as error:
        if error.errno not in UNWRITABLE and not file_errors.SHORT_WRITE.match(str(error)):
            raise
        names = " or ".join(map(str, paths))
        raise UserError(
            f"{names} could not be written ({error.strerror or error}): make room, or choose another --out, and give"
            " the same command again to resume."
        ) from error


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add --workers, for scripts whose steps run in several processes."""
    parser.add_argument(
        "--workers", type=whole(1), metavar="N", default=min(8, os.cpu_count()), help="processes (%(default)s)"
    )


def command_line(main) -> None:
    """Run a script's ``main``. A UserError is one sentence on stderr, with exit status 1."""
    error_hook.run(main, Path(sys.argv[0]).name, interrupted="interrupted; give the same command again to resume")
