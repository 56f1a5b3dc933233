"""Mends of how fairseq writes and reads checkpoints."""

import argparse
import collections
import contextlib
import logging
import os
import pickle
import re
import typing
import uuid
from pathlib import Path
from typing import BinaryIO

import numpy as np
import omegaconf
import torch
from fairseq import checkpoint_utils, file_io
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from fairseq_plugins.compat.distributed import said_by_first
from fairseq_plugins.compat.patch import replace
from fairseq_plugins.errors import UserError
from fairseq_plugins.files import sealed
from fairseq_plugins.files.whole import NotWritten

logger = logging.getLogger(__name__)

UNSAFE_SWITCH = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"

CORES = ("core", "_core")


def checkpoint_types() -> list:
    """The types, beside tensors and plain Python, that fairseq's checkpoints hold, for ``add_safe_globals``."""
    try:
        from numpy._core.multiarray import _reconstruct, scalar
    except ImportError:  # numpy 1
        from numpy.core.multiarray import _reconstruct, scalar
    numbers = [type(np.dtype(code)) for code in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?".split()]
    return [
        argparse.Namespace,  # models and optimizers without a configuration dataclass
        *(np.ndarray, np.dtype, *numbers),  # meters, among them BLEU's counts
        # named after the numpy that wrote the checkpoint, 1 or 2, whichever reads it
        *((make, f"numpy.{core}.multiarray.{make.__name__}") for make in (_reconstruct, scalar) for core in CORES),
        # the whole state as the first of several processes sends it to the others when they resume
        *(omegaconf.DictConfig, omegaconf.ListConfig, ContainerMetadata, Metadata, AnyNode),
        *(distributed_utils._TensorPlaceholder, typing.Any, collections.defaultdict, dict, list, int),
    ]


def load_safely():
    """fairseq leaves it to torch whether unpickling a checkpoint may run code. Here it may not, whatever torch's
    default: only what fairseq itself stores is loaded. ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1`` switches that off,
    and is named in the log."""
    torch.serialization.add_safe_globals(checkpoint_types())
    unsafe = os.environ.get(UNSAFE_SWITCH, "0").lower() in ("1", "y", "yes", "true")
    if unsafe:
        logger.warning(f"{UNSAFE_SWITCH} is set: loading a checkpoint may run whatever code it holds")

    @replace(torch, "load")
    def load(original, *args, weights_only=None, **kwargs):
        return original(*args, weights_only=not unsafe if weights_only is None else weights_only, **kwargs)

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, path, *args, **kwargs):
        try:
            return original(path, *args, **kwargs)
        except UserError:
            raise
        except (
            pickle.UnpicklingError,
            EOFError,
            OSError,
            RuntimeError,
            LookupError,
            AttributeError,
            TypeError,
            ValueError,
        ) as error:
            if getattr(error, "filename", None):  # cannot be opened at all
                raise
            # torch names the type in one of these ways; otherwise it could make nothing of the file
            foreign = re.search(r"GLOBAL (\S+)|add_safe_globals`, but got <class '(\S+)'>", str(error))
            if isinstance(error, pickle.UnpicklingError) and foreign:
                raise UserError(
                    f"the checkpoint {path} holds a {foreign[1] or foreign[2]}: fairseq stores no such thing, and"
                    " loading it could run code. It was not loaded; if you trust whoever made the file, set"
                    f" {UNSAFE_SWITCH}=1."
                ) from error
            raise UserError(unreadable(path)) from error


def verify_when_loading():
    """torch looks at no checksum when it loads a file: a flipped bit of a weight makes a worse model, and nothing is
    said."""

    @replace(torch, "load")
    def load(original, f, *args, **kwargs):
        if isinstance(f, str | os.PathLike):
            with open(f, "rb") as file:
                refuse_damaged(file)
        elif hasattr(f, "readinto") and f.seekable() and not f.tell():  # an archive that is a file of its own
            refuse_damaged(f)
        return original(f, *args, **kwargs)


def refuse_damaged(file: BinaryIO) -> None:
    """Raises UserError for an open file whose checksum is wrong."""
    if why := sealed.damage(file):
        raise UserError(unreadable(getattr(file, "name", "what was loaded"), why))


def unreadable(path, why: str = "") -> str:
    return (
        f"{path} is damaged, truncated or no checkpoint of fairseq{why and f' ({why})'}; take another one (with"
        " --restore-file to go on training, with --path to use a model)."
    )


def never_restart_from_zero():
    """Where the checkpoint to go on from is missing fairseq starts again from nothing, with a line in the log, and
    overwrites what is there."""

    def must_exist(flag, path):  # as the trainer asks, which also opens what is no file of this machine's
        if not file_io.PathManager.isfile(path):
            raise UserError(f"{flag} {path} does not exist; leave the flag out to start from nothing.")

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        last = f"checkpoint_last{trainer.checkpoint_suffix}.pt"
        if cfg.restore_file != "checkpoint_last.pt":
            must_exist("--restore-file", cfg.restore_file.replace(".pt", trainer.checkpoint_suffix + ".pt"))
        elif not (Path(cfg.save_dir) / last).is_file():
            others = sorted(Path(cfg.save_dir).glob("checkpoint*.pt"), key=lambda path: path.stat().st_mtime)
            if cfg.continue_once is not None:
                must_exist("--continue-once", cfg.continue_once)
            elif others:
                raise UserError(
                    f"--save-dir {cfg.save_dir} holds checkpoints but no {last}: training would start from nothing and"
                    f" overwrite them. Go on with --restore-file {others[-1]}, or choose another folder."
                )
        return original(cfg, trainer, **kwargs)


def save_whole_checkpoints():
    """When a write fails fairseq tries again into the same open file, so that the new attempt stands behind what was
    written of the old one, and copies what became of it over checkpoint_last.pt, in place; then it deletes older
    checkpoints, and ends with status 0."""

    @replace(checkpoint_utils, "torch_persistent_save")
    def torch_persistent_save(original, obj, filename, async_write=False):
        if is_remote(filename):
            return original(obj, filename, async_write)
        sealed.save(obj, Path(filename))

    @replace(file_io.PathManager, "copy")
    def copy(original, src_path, dst_path, overwrite=False):
        if is_remote(src_path) or is_remote(dst_path) or not overwrite:
            return original(src_path, dst_path, overwrite)
        sealed.copy(Path(src_path), Path(dst_path))
        return dst_path

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        try:
            return original(cfg, trainer, epoch_itr, val_loss)
        except NotWritten as error:
            last = last_good(Path(cfg.save_dir))
            whole = f"the last good checkpoint is {last}" if last else "there is no good checkpoint yet"
            go_on = "the same command again goes on"
            if last and not last.name.startswith("checkpoint_last"):
                go_on += f", with --restore-file {last} from there"
            raise UserError(f"{error} Training has ended: {whole}; {go_on}.") from error


def is_remote(path) -> bool:
    """Whether fairseq reaches a path through a plugin for other kinds of storage."""
    return bool(file_io.IOPathManager) and file_io.PathManager.path_requires_pathmanager(str(path))


def last_good(folder: Path) -> Path | None:
    """The newest checkpoint of a folder that is not damaged."""
    for path in sorted(folder.glob("checkpoint*.pt"), key=lambda path: path.stat().st_mtime, reverse=True):
        with contextlib.suppress(UserError, OSError):
            sealed.check(path)
            return path
    return None


def workers_save_their_state():
    """fairseq saves the state of the first worker's task only, and tells no task where. A task with the methods
    ``before_checkpoints``, ``after_checkpoints`` and ``after_loading`` is called on every worker: with the folder
    before the checkpoints of an update are written, with their paths afterwards, with the checkpoint resumed from.
    ``trainer.checkpoint_identity`` is a name that the checkpoints written together share with no other, then and when
    they are loaded; None where they have none."""

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        task, folder = trainer.task, Path(cfg.save_dir)
        if cfg.no_save or not hasattr(task, "after_checkpoints"):
            return original(cfg, trainer, epoch_itr, val_loss)
        trainer.checkpoint_identity = said_by_first(trainer, uuid.uuid4().hex)
        task.before_checkpoints(folder, trainer)
        said_by_first(trainer, None)  # that is, when all workers are this far
        before = checkpoint_stamps(folder, trainer)
        saved = original(cfg, trainer, epoch_itr, val_loss)
        written = [path for path, stamp in checkpoint_stamps(folder, trainer).items() if stamp != before.get(path)]
        task.after_checkpoints(said_by_first(trainer, written), trainer)
        return saved

    @replace(Trainer, "save_checkpoint")
    def trainer_save_checkpoint(original, self, filename, extra_state):
        identity = getattr(self, "checkpoint_identity", None)
        return original(self, filename, {**extra_state, "identity": identity} if identity else extra_state)

    @replace(Trainer, "load_checkpoint")
    def trainer_load_checkpoint(original, self, filename, *args, **kwargs):
        extra_state = original(self, filename, *args, **kwargs)
        self.loaded_from, self.checkpoint_identity = Path(filename), (extra_state or {}).get("identity")
        return extra_state

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        extra_state, epoch_itr = original(cfg, trainer, **kwargs)
        if extra_state is not None and hasattr(trainer.task, "after_loading"):
            trainer.task.after_loading(trainer.loaded_from, trainer, epoch_itr)
        return extra_state, epoch_itr


def checkpoint_stamps(folder: Path, trainer) -> dict[Path, tuple]:
    """What changes when a checkpoint is written, of each in the folder; nothing on workers that write none."""
    if not trainer.should_save_checkpoint_on_current_rank:
        return {}
    stats = {path: path.stat() for path in folder.glob("checkpoint*.pt")}
    return {path: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for path, stat in stats.items()}
