"""Standard input, output and error: where they are closed, or take no more, a command ends in a sentence."""

import atexit
import os
import sys
from collections.abc import Callable

# what Python calls them, how, and how the system opens the place of a closed one: what is read from such an input or
# written to such an output fails, and nothing else gets its number, as the first file that is opened would
STANDARD = (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


def open_closed() -> None:
    """Put something in the place of a file that was closed when the process began (``<&-``, ``>&-``), for which Python
    has None. Nobody can read what is written to a closed stderr, so it is thrown away."""
    for name, mode, way in STANDARD:
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, way), mode))  # noqa: SIM115


def lost_output() -> OSError | None:
    """Why what was printed cannot be written. From then on what is printed is thrown away."""
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
    """Say at the end of the process where the rest of its output cannot be written; Python's words for that are a
    traceback. It tries once more, and ends with status 120."""

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
