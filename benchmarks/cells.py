"""The queue of gpu.py and of evidence.sh: cells one after the other, each in a process of its own."""

import fcntl
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

import paths  # noqa: F401  finds the suite

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.steps import lock
from fairseq_plugins.startup import error_hook

error_hook.install()

Row = dict[str, str | float]
AT_THE_END = 20  # seconds that a process may take to end, when its row has come
SPEED = f"{os.environ.get('TMPDIR') or '/tmp'}/fairseq_plugins-{os.getuid()}"  # its locks are the same for all folders


def turns(names: Iterable[str], locks: Path, done: Callable[[str], bool], say: Callable[[str], None]) -> Iterator[str]:
    """The cells that are not done, one after the other. One that another queue is at is passed over.

    Args:
        locks: the folder that has a folder with a lock for each cell
    """
    for name in names:
        if done(name):
            continue
        try:
            with lock(locks / name / "lock", name, say, wait=False):
                if not done(name):  # another queue was not faster
                    yield name
        except BlockingIOError:
            say(f"{name} is passed over: another queue is at it.")


def apart(measure: Callable[[], Row], limit: float, log: Path, mode: str = "w") -> Row:
    """The row that ``measure`` returns in another process. As a rule it is a fork of this one, whose imports are there
    already.

    Args:
        limit: seconds after which it is stopped
        log: gets all its output

    Raises:
        TimeoutError: it took longer
        RuntimeError: how it failed
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    receiver, sender = Pipe(duplex=False)
    process = Process(target=work, args=(measure, log, mode, sender))
    sys.stdout.flush()
    process.start()
    sender.close()
    try:
        if not receiver.poll(limit):
            raise TimeoutError(f"stopped after its limit of {limit} s")
        row, error = json.loads(receiver.recv())
        process.join(AT_THE_END)
    except EOFError:
        process.join(AT_THE_END)
        raise RuntimeError(f"its process ended with status {process.exitcode}; see {log.name}") from None
    finally:
        stop(process)
    if error:
        raise RuntimeError(error)
    return row


def stop(process: Process) -> None:
    """End the process, and those that it has started."""
    if process.is_alive():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # so young that it is still in this process's group
            process.kill()
    process.join()


def work(measure: Callable[[], Row], log: Path, mode: str, sender: Connection) -> None:
    """In the other process: measure, and send the row or the error. All output goes to the log."""
    os.setsid()
    with open(log, mode) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    row, said = {}, ""
    try:
        row = measure()
    except BaseException as error:  # fairseq's commands raise SystemExit, too
        if not isinstance(error, SystemExit):
            traceback.print_exc()
        said = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
    sender.send(json.dumps([row, said]))


def end_with_cells() -> None:
    """From now on these signals end the cell, too, as Ctrl-C does."""
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, lambda number, frame: sys.exit(128 + number))


@contextmanager
def speed_lock(kind: int, say: Callable[[], None]) -> Iterator[None]:
    """Cells that train share the lock .training, and a measurement of speed has it alone. A measurement that waits for
    it holds .next, so that no cell begins before it. A process that a killed queue has left holds its lock on.

    Args:
        kind: LOCK_SH or LOCK_EX
        say: is called before it waits
    """
    with ExitStack() as held:
        try:
            files = [held.enter_context(open(f"{SPEED}.{name}", "a")) for name in ("next", "training")]
        except OSError as error:
            raise UserError(f"TMPDIR: {error}; name a folder where you may write.") from error
        for file in files:
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                say()
                fcntl.flock(file, kind)
        if kind == fcntl.LOCK_SH:
            files[0].close()
        yield


def alone():
    """Let no cell of evidence.sh begin, and wait until none trains and nothing else is measured here."""
    waiting = "waiting: a cell of evidence.sh trains here, or speed is measured"
    return speed_lock(fcntl.LOCK_EX, lambda: print(waiting, file=sys.stderr, flush=True))
