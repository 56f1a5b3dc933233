"""Sentences for the system's errors of files, with the way out."""

import errno
import os
import re
import stat
import sys
from itertools import pairwise

# The system's errors by number, and the way out. For the first ones Python often gives no file name.
MAKE_ROOM, OTHER_FOLDER, CHECK_PATH = "make room, or choose another folder", "choose another folder", "check the path"
NOT_WRITTEN = {
    errno.ENOSPC: MAKE_ROOM,
    errno.EDQUOT: MAKE_ROOM,
    errno.EFBIG: MAKE_ROOM,
    errno.EROFS: OTHER_FOLDER,
}
NOT_USED = {
    errno.EIO: "the disk, or the way to it, is broken: choose another folder",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "its links lead in a circle: check the path",
    errno.EBADF: "it is closed: give it a file or a pipe",
    errno.EMFILE: "raise ulimit -n, or lower --num-workers or --workers",
    **dict.fromkeys((errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EEXIST), CHECK_PATH),
}
NAMELESS = {errno.EIO: "a file", errno.EMFILE: "one more file", errno.EBADF: "standard input or output"}
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")  # of numpy
FILE_ERROR = re.compile(r"\b\w*Error: \[Errno (\d+)\] [^:\n]*(?:: '([^'\n]*)')?")
# The flags that name the outputs of a command
OUTPUTS = "--destdir --json --log-file --out --output --results-path --save-dir --tensorboard-logdir".split()


def of_file(error: BaseException) -> str | None:
    """The sentence for an error of a file; None for other errors."""
    if not isinstance(error, OSError):
        return None
    name = error.filename if isinstance(error.filename, str | bytes | os.PathLike) else ""
    why = os.strerror(error.errno or errno.EIO)
    if error.errno in NOT_WRITTEN:
        return f"{os.fsdecode(name) or outputs()} could not be written ({why}); {NOT_WRITTEN[error.errno]}."
    if error.errno in NOT_USED and (name or error.errno in NAMELESS):
        return f"cannot use {os.fsdecode(name) or NAMELESS[error.errno]}: {why}; {NOT_USED[error.errno]}."
    if not name and SHORT_WRITE.match(str(error)):
        return f"{outputs()} could not be written; {MAKE_ROOM}."
    return None


def in_text(said: str) -> str | None:
    """The sentence for an error of a process that was started, which hands it over as text."""
    sentences = (of_file(OSError(int(number), "", name)) for number, name in FILE_ERROR.findall(said))
    return next(filter(None, sentences), None)


def outputs() -> str:
    """The outputs of the command, by the flags that name them."""
    words = [word for whole in sys.argv[1:] for word in (whole.split("=", 1) if whole.startswith("--") else [whole])]
    named = [f"{name} {value}" for name, value in pairwise(words) if name in OUTPUTS]
    printed = [] if named and not stat.S_ISREG(os.fstat(1).st_mode) else ["standard output"]
    return " or ".join([*named, *printed])
