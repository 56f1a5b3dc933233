"""Uncaught errors of the user's end in one sentence, not in a traceback. All other errors keep their tracebacks."""

import logging
import os
import select
import sys
from collections.abc import Callable

from fairseq_plugins.error_messages import sentence
from fairseq_plugins.startup import standard_files

handle_error = logging.Handler.handleError  # before ``install`` replaces it
LOST: set[logging.Handler] = set()  # logs that cannot be written

TRACEBACK = "FAIRSEQ_PLUGINS_TRACEBACK"
SAID = {"name": "fairseq_plugins", "interrupted": "interrupted"}  # of this command, in its messages


def run(main: Callable[[], None], name: str, status: int = 1, interrupted: str = "interrupted") -> None:
    """Run the ``main`` of a command. An uncaught error is reported under its name, and ends it with this status."""
    SAID.update(name=name, interrupted=interrupted)
    install()
    try:
        main()
    except Exception:  # after an interrupt Python calls the hook itself, and ends with this signal
        report(*sys.exc_info())
        sys.exit(status)


def install():
    """Report uncaught errors by ``report`` from now on."""
    if sys.excepthook is report:
        return
    sys.excepthook = report
    # Unless this is set, Hydra prints tracebacks itself, and the hook is not called.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    logging.Handler.handleError = log_lost  # type: ignore[assignment, method-assign]
    standard_files.open_closed()
    standard_files.at_exit(say)


def log_lost(handler: logging.Handler, record: logging.LogRecord) -> None:
    """Report once that a log cannot be written, for example on a full disk. Python would print a traceback for every
    line."""
    error = sys.exception()
    if not isinstance(error, OSError):
        return handle_error(handler, record)
    if handler not in LOST:
        name = getattr(handler, "baseFilename", "the log")
        print(f"fairseq_plugins: warning: {name} cannot be written ({error.strerror}); going on.", file=sys.stderr)
    LOST.add(handler)


def report(kind, error, traceback):
    """For ``sys.excepthook``: print one sentence on stderr for an error of the user's, else Python's own report."""
    lost = standard_files.lost_output()
    if isinstance(error, BrokenPipeError) and (isinstance(lost, BrokenPipeError) or stdout_is_closed()):
        return
    text = standard_files.sentence(lost) if lost and isinstance(error, OSError) else sentence(error)
    if os.environ.get(TRACEBACK, "0") != "0":
        sys.__excepthook__(kind, error, traceback)
    elif isinstance(error, KeyboardInterrupt):  # Python ends with this signal, which a shell sees as status 130
        print(f"{SAID['name']}: {SAID['interrupted']}", file=sys.stderr, flush=True)
    elif text is None:
        sys.__excepthook__(kind, error, traceback)
    else:
        say(text)


def say(text: str) -> None:
    print(f"{SAID['name']}: error: {text}", file=sys.stderr, flush=True)


def stdout_is_closed() -> bool:
    """Whether nobody reads the output any more, as after `| head`. Then further output is thrown away."""
    poll = select.poll()
    poll.register(1, 0)  # errors are reported whatever is asked for
    closed = bool(poll.poll(0))
    if closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return closed
