"""Errors that a user can correct. A command reports them in one sentence (see ``startup/error_hook.py``)."""

import re


class UserError(ValueError):
    """An error that the user can correct. The text is all that the user sees: it names the flag or file, and the way
    out."""


class OutOfMemory(UserError, RuntimeError):
    """Memory ran out. At a RuntimeError fairseq writes no crash.pt, which would have nothing new in it. Only where the
    text has "out of memory" in it, fairseq goes on without the batch."""


NO_MEMORY = re.compile("out of memory|allocate memory|ALLOC_FAILED")  # of CUDA, of a CPU, of NVIDIA's libraries


def flag(name: str) -> str:
    """The flag of an option: dropout_rate -> --dropout-rate"""
    return "--" + name.replace("_", "-")


def one_line(error: BaseException) -> str:
    """The text of another library's error, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def causes(error: BaseException | None):
    """An error and its causes, from the outermost to the innermost."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


# For the report of a training that diverged. It may have saved nothing.
OF_BEFORE = "Checkpoints in --save-dir, if there are any, are from before, except crash.pt"
