"""Steps of a preparation. Each step is done once, and completely or not at all.

A step writes files with temporary names. When it is finished, the files are renamed, and a stamp is written that holds
the options of the step, and the size and time of every input and output. An input that changes while it is read makes
the step fail. If the same command is given again, it skips the steps with a valid stamp. A changed option or input, and
a missing or truncated output, make a step run again. A stamp does not hold the paths of folders, so they may be
spelled differently or be moved. A finished folder may be on a read-only disk.
"""

import argparse
import errno
import fcntl
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for fairseq_plugins, where it is not installed

from fairseq_plugins.errors import UserError  # noqa: E402
from fairseq_plugins.files.reading import parse_json  # noqa: E402
from fairseq_plugins.files.whole import flush, replacing  # noqa: E402
from fairseq_plugins.options.ranges import whole  # noqa: E402
from fairseq_plugins.startup import error_hook, file_errors  # noqa: E402
from fairseq_plugins.startup.error_messages import sentence  # noqa: E402

error_hook.install()  # an interrupt of the next imports ends without a traceback

SILENCE = 10  # seconds
# errors for which Python gives no file name, or the temporary one
UNWRITABLE = {*file_errors.NOT_WRITTEN, errno.EIO}


class Steps:
    def __init__(self, out: Path):
        if os.pathsep in str(out):
            raise UserError(
                f"--out {out} has a '{os.pathsep}' in it, which separates folders for fairseq: leave it out."
            )
        self.out = out
        self.stamps = out / ".steps"
        self.given: set[Path] = set()  # the user's files
        self.made: set[Path] = set()
        self.read_only = ""  # why nothing can be written, where all is done
        try:
            self.stamps.mkdir(parents=True, exist_ok=True)
            self.lock = open(self.stamps / "lock", "w")  # noqa: SIM115  (held to the end of the process)
        except OSError as error:
            if error.errno not in {errno.EROFS, errno.EACCES} or not any(self.stamps.glob("*.json")):
                raise UserError(f"--out {out} cannot be filled ({error.strerror}): give another folder.") from error
            self.read_only = error.strerror
            return
        try:
            # lockf instead of flock, since it ends with this process even if child processes continue
            fcntl.lockf(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # two recipes may share their data: the second one waits, and then finds every step done
            print(f"--out {out} is being prepared by another process: waiting until it ends", flush=True)
            fcntl.lockf(self.lock, fcntl.LOCK_EX)
        except OSError as error:  # some network file systems have no locks
            print(f"--out {out} cannot be locked ({error.strerror}): start no second preparation in it", flush=True)

    def forget(self, *names: str) -> None:
        """Remove the outputs of steps of an earlier command that this command does not have."""
        for name in names:
            if (stamp := self.stamps / f"{name}.json").exists():
                self._check_writable(name)
                self._remove_made(name, [])
                stamp.unlink()

    def run(self, name, inputs, outputs, options, work) -> None:
        """Call ``work(*temporary_outputs)``, unless the step was done before. It returns a report of one line.

        Args:
            outputs: files or folders below ``out``
            options: everything beside the inputs that ``work`` depends on
        """
        self._keep_what_is_given(inputs, outputs)
        stamp = self.stamps / f"{name}.json"
        options = json.loads(json.dumps(options))
        done, before = _read(stamp), {path: self._fingerprints([path]) for path in inputs}
        found = sum(before.values(), [])
        state = {"inputs": found, "outputs": self._fingerprints(outputs)}
        if done and done == dict(state, options=options, report=done.get("report")):
            print(f"{name}: {done['report']} (done before)", flush=True)
            return
        self._check_writable(name)
        self._remove_made(name, outputs)
        stamp.unlink(missing_ok=True)
        started = time.monotonic()
        partial = [path.with_name(path.name + ".partial") for path in outputs]
        for path in partial:
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove(path)
        with writing(*outputs):
            try:
                with signs_of_life(name, partial):
                    report = work(*partial)
            finally:
                self._check_unchanged(name, before, partial)  # the work may also fail because of a change
            for file in chain.from_iterable(map(_files, partial)):
                flush(file)
            for path, temporary in zip(outputs, partial):
                _remove(path)
                os.replace(temporary, path)
        state = {"inputs": found, "outputs": self._fingerprints(outputs)}  # the inputs as they were before the work
        write_text(stamp, json.dumps(dict(state, options=options, report=report), indent=1))
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

    def _check_unchanged(self, name: str, before: dict[Path, list], partial: list[Path]) -> None:
        """Remove the outputs of a step whose input has changed: a part of them may come from the earlier input.

        Args:
            before: the fingerprint of each input before the work

        Raises:
            UserError: an input has changed since then
        """
        if changed := [path for path, earlier in before.items() if self._fingerprints([path]) != earlier]:
            for path in partial:
                _remove(path)
            raise UserError(
                f"{changed[0]} changed while the step {name} read it, so the step is not done: give the same command"
                " again when nothing writes to it any more."
            )

    def _remove_made(self, name: str, outputs: list[Path]) -> None:
        """Remove the files that the step made before, but for ``outputs`` and for files that are no longer the same."""
        done = _read(self.stamps / f"{name}.json") or {}
        for made in done.get("outputs", []):
            path = self.out / made[0]
            if not any(path.is_relative_to(output) for output in outputs) and self._fingerprints([path]) == [made]:
                path.unlink()

    def _fingerprints(self, paths) -> list:
        """The name, the size and the time of each file. Names are relative to ``out``, or to the file's own folder."""
        found = []
        for path in (path.resolve() for path in paths):
            start = self.out.resolve() if path.is_relative_to(self.out.resolve()) else path.parent
            for file in sorted(_files(path)):
                if file.is_file():
                    state = file.stat()
                    found.append([file.relative_to(start).as_posix(), state.st_size, state.st_mtime_ns])
        return found


def _overlaps(path: Path, others: set[Path]) -> Path | None:
    """The first of the others that is the path, lies in it, or has it in it."""
    return next((other for other in others if path.is_relative_to(other) or other.is_relative_to(path)), None)


@contextmanager
def signs_of_life(name: str, outputs: list[Path]):
    """Say every ten seconds on stderr how long the step takes so far, and how much it has written. On a terminal it is
    one line, which a progress bar may replace."""
    # the step may send sys.stderr elsewhere
    started, ended, stderr, terminal = time.monotonic(), threading.Event(), sys.stderr, sys.stderr.isatty()

    def watch():
        while not ended.wait(SILENCE):
            text = f"{name}: {time.monotonic() - started:.0f} s so far, {_size(outputs) / 1e6:.1f} MB written"
            print(f"\r{text}\x1b[K" if terminal else text, end="" if terminal else "\n", file=stderr, flush=True)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if terminal:
            print("\r\x1b[K", end="", file=stderr, flush=True)


def _size(paths: list[Path]) -> int:
    """Bytes in files, and in folders of files, that exist."""
    total = 0
    for file in list(chain.from_iterable(map(_files, paths))):
        with suppress(OSError):  # it may be renamed or removed meanwhile
            total += file.stat().st_size
    return total


def write_text(path: Path, text: str) -> None:
    with writing(path), replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def writing(*paths: Path):
    """If a file cannot be written in this context, remove the temporary files, and name the files in the error, which
    the system's error does not.

    Raises:
        UserError: the system cannot write one of the files
    """
    try:
        yield
    except OSError as error:
        if error.errno not in UNWRITABLE and not file_errors.SHORT_WRITE.match(str(error)):
            raise
        with suppress(OSError):  # nothing can be removed where nothing can be written
            for path in paths:
                _remove(path.with_name(path.name + ".partial"))
        names = " or ".join(map(str, paths))
        raise UserError(
            f"{names} could not be written ({error.strerror or error}): make room, or choose another --out, and give"
            " the same command again to resume."
        ) from error


def _files(path: Path) -> Iterable[Path]:
    """The file, or all files and folders in the folder."""
    return path.rglob("*") if path.is_dir() else [path]


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add --workers, for scripts whose steps run in several processes."""
    parser.add_argument(
        "--workers", type=whole(1), metavar="N", default=min(8, os.cpu_count()), help="processes (%(default)s)"
    )


def command_line(main) -> None:
    """Run a script's ``main``. A UserError is one sentence on stderr, with exit status 1."""
    name = Path(sys.argv[0]).name
    try:
        main()
    except UserError as error:
        sys.exit(f"{name}: error: {error}")
    except BrokenPipeError:  # the reader has enough, for example head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if (said := sentence(error)) is None:
            raise
        sys.exit(f"{name}: error: {said}")
    except KeyboardInterrupt:
        print(f"{name}: interrupted; give the same command again to resume", file=sys.stderr)
        sys.excepthook = lambda *_: None
        raise  # so that Python ends with this signal, which a shell sees as status 130


def _read(stamp: Path):
    try:
        found = parse_json(stamp.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
