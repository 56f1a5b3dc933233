"""The file that each worker writes beside a checkpoint: memory, position and random state.

    checkpoint_last.pt.memory-0-of-2      of the first of two workers
    newest.memory-0-of-2                  the same file: it is written before the checkpoints are, so that a training
                                          killed between a checkpoint and its memories still finds them

What a file is read from: ``load``; which file belongs to a checkpoint: ``find``.
"""

import hashlib
import io
import os
import random
import re
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import torch

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.files import write_whole

AWAY = "go on with --memory-in-checkpoint replay, which is not exact, or with --reset-dataloader"


def newest_file(folder: Path, worker: int, workers: int) -> Path:
    return folder / f"newest.memory-{worker}-of-{workers}"


def file_beside(checkpoint: Path, worker: int, workers: int) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.memory-{worker}-of-{workers}")


def load(path: Path) -> dict:
    """Read what ``sealed.save`` wrote, or an earlier version of this suite, with its checksum in the first line.

    Raises:
        UserError: the file is not what was written
    """
    with open(path, "rb") as file:
        start = file.read(65)
        of_earlier_version = re.fullmatch(rb"[0-9a-f]{64}\n", start)
        content = file.read() if of_earlier_version else b""
    damaged = UserError(f"{path} is damaged (its checksum is wrong): delete it and {AWAY}.")
    if of_earlier_version and hashlib.sha256(content).hexdigest().encode() != start[:64]:
        raise damaged
    if not of_earlier_version and not start.startswith(b"PK"):
        raise damaged
    try:
        return torch.load(io.BytesIO(content) if of_earlier_version else path, map_location="cpu")
    except UserError as error:  # of compat.checkpoints.verify_when_loading
        raise damaged from error


def share(file: Path, others: list[Path]) -> None:
    """Give a file further names; a copy where the file system has no links."""

    def link_or_copy(temporary: Path):
        try:
            os.link(file, temporary)
        except OSError:
            shutil.copyfile(file, temporary)

    for other in others:
        write_whole(other, link_or_copy)


def find(checkpoint: Path, worker: int, workers: int, updates: int, identity: str | None = None) -> dict | None:
    """The state that belongs to a checkpoint saved after so many updates, or None.

    Args:
        identity: what the checkpoint and its files have in common with no others; those of earlier versions of this
            suite have none

    Raises:
        UserError: a file is damaged or holds something else, and the other is not the checkpoint's
    """
    beside, newest = file_beside(checkpoint, worker, workers), newest_file(checkpoint.parent, worker, workers)
    damaged = None
    for path in filter(Path.exists, (beside, newest)):
        try:
            state = load(path)
            with understood(path):
                belongs = (state["updates"], state.get("identity")) == (updates, identity)
        except UserError as error:
            damaged = damaged or error
            continue
        if belongs:
            if path == newest:  # which the next save overwrites
                with suppress(OSError):  # another's folder, to which this training will not save
                    share(newest, [beside])
            return state
    if damaged:
        raise damaged
    return None


@contextmanager
def understood(path: Path):
    """Whatever goes wrong inside comes from the content of a file, whose checksum is right.

    Raises:
        UserError: something went wrong
    """
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"the memory of {path} is not of this model, or not what this suite saves ({type(error).__name__}): {AWAY}."
        ) from error


def why_missing(checkpoint: Path, workers: int) -> str:
    """A sentence on why ``find`` found nothing."""
    saved = {file.name.rpartition("-")[2] for file in checkpoint.parent.glob(f"{checkpoint.name}.memory-*-of-*")}
    if saved and str(workers) not in saved:
        return (
            f"{checkpoint} was saved by {' or '.join(sorted(saved))} worker(s), this training has {workers}: start as"
            " many, or begin the streams anew with --reset-dataloader."
        )
    return f"the memory of {checkpoint} is not beside it ({checkpoint.name}.memory-*) or of another checkpoint: {AWAY}."


def remove_orphans(written: list[Path], workers: int) -> None:
    """Remove, in the folder of the checkpoints just written, the files of checkpoints that are gone, and what another
    number of workers left beside these."""
    folder = written[0].parent
    for file in folder.glob("*.memory-*"):
        if not (match := re.fullmatch(r"(.+)\.memory-\d+-of-(\d+)", file.name)):
            continue  # another worker is about to write it
        checkpoint, of_others = folder / match[1], int(match[2]) != workers
        if match[1] == "newest":
            gone = of_others
        else:
            gone = not checkpoint.exists() or (of_others and checkpoint in written)
        if gone:
            file.unlink(missing_ok=True)


def random_state() -> dict:
    """The state of every random generator of this process."""
    states = {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_random_state(states: dict) -> None:
    torch.set_rng_state(states["torch"])
    np.random.set_state(states["numpy"])
    random.setstate(states["python"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
