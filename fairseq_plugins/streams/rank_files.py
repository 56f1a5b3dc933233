"""The file that each rank writes beside a checkpoint: its name, and the checkpoint that it belongs to.

    checkpoint_last.pt.memory-0-of-2      of rank 0, where the world size is 2
    newest.memory-0-of-2                  the same file

The second is written before the checkpoints are. So if a training is killed after it wrote a checkpoint, but before it
wrote the file beside it, that file still exists under its other name.
"""

import hashlib
import io
import os
import pickle
import re
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import write_whole

WAY_OUT = "resume with --memory-in-checkpoint replay, which is not exact, or with --reset-dataloader"


def newest_file(folder: Path, rank: int, world_size: int) -> Path:
    return folder / f"newest.memory-{rank}-of-{world_size}"


def file_beside(checkpoint: Path, rank: int, world_size: int) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.memory-{rank}-of-{world_size}")


def load(path: Path, way_out: str = WAY_OUT) -> dict:
    """Read a file that ``sealed.save`` wrote, or one of an earlier version, which has its checksum in the first line.

    Raises:
        UserError: the file is damaged, or its checksum is right but its content is not of this suite
    """
    with open(path, "rb") as file:
        start = file.read(65)
        of_earlier_version = re.fullmatch(rb"[0-9a-f]{64}\n", start)
        content = file.read() if of_earlier_version else b""
    damaged = UserError(f"{path} is damaged (its checksum is wrong): delete it and {way_out}.")
    if of_earlier_version and hashlib.sha256(content).hexdigest().encode() != start[:64]:
        raise damaged
    if not of_earlier_version and not start.startswith(b"PK"):
        raise damaged
    with content_errors(path, way_out):
        try:
            return torch.load(io.BytesIO(content) if of_earlier_version else path, map_location="cpu")
        except UserError as error:  # of compat.checkpoints.verify_when_loading
            raise damaged from error


def share(file: Path, others: list[Path]) -> None:
    """Give a file further names: by links, or by copies where the file system has no links."""

    def link_or_copy(temporary: Path):
        try:
            os.link(file, temporary)
        except OSError:
            shutil.copyfile(file, temporary)

    for other in others:
        write_whole(other, link_or_copy)


def name_after(checkpoints: list[Path], rank: int, world_size: int) -> None:
    """Name the rank's newest file after the checkpoints just written, and remove the files of checkpoints that are
    gone."""
    newest = newest_file(checkpoints[0].parent, rank, world_size)
    share(newest, [file_beside(path, rank, world_size) for path in checkpoints])
    if rank == 0:
        remove_orphans(checkpoints, world_size)


def find(
    checkpoint: Path, rank: int, world_size: int, updates: int, identity: str | None = None, way_out: str = WAY_OUT
) -> dict | None:
    """The state that was saved with a checkpoint, or None.

    Args:
        updates: the number of updates after which the checkpoint was saved; it counts where there is no identity
        identity: a name that only this checkpoint and its files share; None in files of earlier versions
        way_out: the advice in an error

    Raises:
        UserError: one file is damaged or has another content, and the other does not belong to the checkpoint
    """
    beside, newest = file_beside(checkpoint, rank, world_size), newest_file(checkpoint.parent, rank, world_size)
    damaged = None
    for path in filter(Path.exists, (beside, newest)):
        try:
            state = load(path, way_out)
            with content_errors(path, way_out):
                # with --reset-optimizer fairseq has forgotten the number of updates: the identity is enough
                same_updates, same = state["updates"] == updates, state.get("identity") == identity
            belongs = same and (same_updates or identity is not None)
        except UserError as error:
            damaged = damaged or error
            continue
        if belongs:
            if path == newest:  # the next save overwrites it
                with suppress(OSError):  # the folder may not be writable; this training saves elsewhere
                    share(newest, [beside])
            return state
    if damaged:
        raise damaged
    return None


# errors that a file of unexpected content may cause; torch refuses types that it does not trust
WRONG_CONTENT = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)


@contextmanager
def content_errors(path: Path, way_out: str = WAY_OUT):
    """A context that raises any error as a UserError about the file's content. Its checksum has been verified."""
    try:
        yield
    except WRONG_CONTENT as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"the memory of {path} does not fit this model, or was not saved by this suite ({type(error).__name__}):"
            f" {way_out}."
        ) from error


def why_missing(
    checkpoint: Path, world_size: int, what: str = "memory", anew: str = "start the streams from the beginning",
    way_out: str = WAY_OUT,
) -> str:  # fmt: skip
    """A sentence on why ``find`` found nothing. ``what`` is missing, and ``anew`` is the effect of
    --reset-dataloader."""
    saved = {file.name.rpartition("-")[2] for file in checkpoint.parent.glob(f"{checkpoint.name}.memory-*-of-*")}
    if saved and str(world_size) not in saved:
        return (
            f"{checkpoint} was saved by {' or '.join(sorted(saved))} process(es), this training has {world_size}: start"
            f" as many, or {anew} with --reset-dataloader."
        )
    return (
        f"the {what} of {checkpoint} is missing or belongs to another checkpoint ({checkpoint.name}.memory-* in the"
        f" same folder): {way_out}."
    )


def remove_orphans(written: list[Path], world_size: int) -> None:
    """In the folder of the checkpoints just written, remove the files whose checkpoint is gone, and files of another
    world size beside these checkpoints."""
    folder = written[0].parent
    for file in folder.glob("*.memory-*"):
        if not (match := re.fullmatch(r"(.+)\.memory-\d+-of-(\d+)", file.name)):
            continue  # a temporary file that another rank is writing
        checkpoint, of_others = folder / match[1], int(match[2]) != world_size
        beside_newest = match[1] == "newest"
        gone = not beside_newest and not checkpoint.exists()
        if gone or of_others and (beside_newest or checkpoint in written):
            file.unlink(missing_ok=True)
