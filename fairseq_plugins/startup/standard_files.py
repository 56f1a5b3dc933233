"""Standard input, output and error. If one of them is closed, or takes no more, a command ends in a sentence."""

import atexit
import os
import sys
from collections.abc import Callable

# Python's name of a file, its mode, and the mode in which a file is opened in place of a closed one. A read from that
# input, or a write to that output, fails. Without it the first file that the program opens would take the place.
STANDARD = (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


def open_closed() -> None:
    """Open a file in place of each one that was closed when the process began (``<&-``, ``>&-``): Python has None for
    it. Output to a closed stderr is thrown away, since nobody can read it."""
    for name, mode, way in STANDARD:
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, way), mode))  # noqa: SIM115


def lost_output() -> OSError | None:
    """The error of a standard output that cannot be written, or None. Further output is thrown away then."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    except ValueError:  # it was closed by the program
        pass
    return None


def sentence(lost: OSError) -> str:
    return f"standard output could not be written ({lost.strerror}); give it a file or a pipe with room."


def at_exit(say: Callable[[str], None]) -> None:
    """At the end of the process, report in a sentence that the rest of its output cannot be written. Python would
    print a traceback. It tries once more, and ends with status 120."""

    def check() -> None:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            say(sentence(error))
            sys.unraisablehook = lambda _: None
        except ValueError:
            pass

    atexit.register(check)
