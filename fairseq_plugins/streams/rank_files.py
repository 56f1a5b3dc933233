"""The file that each rank writes beside a checkpoint: its content, its name, and the checkpoint that it belongs to.

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import torch

from fairseq_plugins.errors import UserError
from fairseq_plugins.files import sealed
from fairseq_plugins.files.whole import write_whole
from fairseq_plugins.random_states import random_state

# errors that a file of unexpected content may cause; torch refuses types that it does not trust
WRONG_CONTENT = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, RuntimeError, TypeError, ValueError,
    pickle.UnpicklingError,
)  # fmt: skip


class RankFiles:
    """Saves the state of this rank, and finds it again.

    ``compat.checkpoints.every_rank_saves_its_state`` calls ``before_checkpoints``, ``after_checkpoints`` and
    ``after_loading``, which the subclass has, on every rank.
    """

    what: ClassVar[str]  # the state, in words
    anew: ClassVar[str]  # the effect of --reset-dataloader, as a command
    way_out: ClassVar[str]  # of a training whose file is lost

    def state(self) -> dict:
        """What the file holds beside the random state."""
        raise NotImplementedError

    def before_checkpoints(self, folder: Path, trainer) -> None:
        """Write this rank's file, before the checkpoints that it belongs to are written."""
        state = {"updates": trainer.get_num_updates(), "identity": trainer.checkpoint_identity}
        sealed.save({**state, **self.state(), "random": random_state()}, newest_file(folder, *rank_of(trainer)))

    def after_checkpoints(self, checkpoints: list[Path], trainer) -> None:
        """Name this rank's file after the checkpoints just written, and remove the files of checkpoints that are
        gone."""
        if checkpoints:
            rank, world_size = rank_of(trainer)
            newest = newest_file(checkpoints[0].parent, rank, world_size)
            share(newest, [file_beside(path, rank, world_size) for path in checkpoints])
            if rank == 0:
                remove_orphans(checkpoints, world_size)

    def find(self, checkpoint: Path, trainer) -> dict | None:
        """The state that was saved with a checkpoint, or None. Raises UserError if one file is damaged or has another
        content, and the other does not belong to the checkpoint."""
        updates, identity = trainer.get_num_updates(), trainer.checkpoint_identity
        beside, newest = file_beside(checkpoint, *rank_of(trainer)), newest_file(checkpoint.parent, *rank_of(trainer))
        damaged = None
        for path in filter(Path.exists, (beside, newest)):
            try:
                with self.content_errors(path):
                    state = load(path, self.way_out)
                    # with --reset-optimizer fairseq has forgotten the number of updates: the identity is enough; files
                    # of earlier versions have none
                    same_updates, same = state["updates"] == updates, state.get("identity") == identity
            except UserError as error:
                damaged = damaged or error
                continue
            if same and (same_updates or identity is not None):
                if path == newest:  # the next save overwrites it
                    with suppress(OSError):  # the folder may not be writable; this training saves elsewhere
                        share(newest, [beside])
                return state
        if damaged:
            raise damaged
        return None

    @contextmanager
    def content_errors(self, path: Path) -> Iterator[None]:
        """A context that raises any error as a UserError about the file's content. Its checksum has been verified."""
        try:
            yield
        except UserError:
            raise
        except WRONG_CONTENT as error:
            raise UserError(
                f"the memory of {path} does not fit this model, or was not saved by this suite"
                f" ({type(error).__name__}): {self.way_out}."
            ) from error

    def missing(self, checkpoint: Path, trainer) -> UserError:
        """Why ``find`` found nothing."""
        saved = {file.name.rpartition("-")[2] for file in checkpoint.parent.glob(f"{checkpoint.name}.memory-*-of-*")}
        world_size = trainer.data_parallel_world_size
        if saved and str(world_size) not in saved:
            return UserError(
                f"{checkpoint} was saved by {' or '.join(sorted(saved))} process(es), this training has {world_size}:"
                f" start as many, or {self.anew} with --reset-dataloader."
            )
        return UserError(
            f"the {self.what} of {checkpoint} is missing or belongs to another checkpoint ({checkpoint.name}.memory-*"
            f" in the same folder): copy it with its checkpoint, or {self.way_out}."
        )


def rank_of(trainer) -> tuple[int, int]:
    """Rank and world size."""
    return trainer.data_parallel_rank, trainer.data_parallel_world_size


def newest_file(folder: Path, rank: int, world_size: int) -> Path:
    return folder / f"newest.memory-{rank}-of-{world_size}"


def file_beside(checkpoint: Path, rank: int, world_size: int) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.memory-{rank}-of-{world_size}")


def load(path: Path, way_out: str) -> dict:
    """Read a file that ``sealed.save`` wrote, or one of an earlier version, which has its checksum in the first line.
    Raises UserError if the file is damaged, and errors of torch if its checksum is right but its content is foreign."""
    with open(path, "rb") as file:
        start = file.read(65)
        of_earlier_version = re.fullmatch(rb"[0-9a-f]{64}\n", start)
        content = file.read() if of_earlier_version else b""
    damaged = UserError(f"{path} is damaged (its checksum is wrong): delete it and {way_out}.")
    if of_earlier_version and hashlib.sha256(content).hexdigest().encode() != start[:64]:
        raise damaged
    if not of_earlier_version and not start.startswith(b"PK"):
        raise damaged
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
