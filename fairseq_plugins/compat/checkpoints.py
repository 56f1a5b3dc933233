"""Patches of how fairseq writes and reads checkpoints."""

import argparse
import collections
import contextlib
import importlib
import logging
import os
import pickle
import typing
import uuid
from pathlib import Path
from typing import BinaryIO

import numpy as np
import omegaconf
import torch
from fairseq import checkpoint_utils, file_io
from fairseq.distributed import utils as distributed_utils
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.trainer import Trainer
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from fairseq_plugins.compat.distributed import broadcast_from_rank0
from fairseq_plugins.compat.patch import replace, temporarily
from fairseq_plugins.errors import UserError
from fairseq_plugins.files import exported, sealed
from fairseq_plugins.files.reading import WEIGHTS, regular
from fairseq_plugins.files.whole import NotWritten

logger = logging.getLogger(__name__)

UNSAFE_SWITCH = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"

# The errors of reading a file that is not a checkpoint
UNREADABLE = (
    pickle.UnpicklingError, EOFError, OSError, RuntimeError, LookupError, AttributeError, TypeError, ValueError,
)  # fmt: skip


def checkpoint_types() -> list:
    """The types that fairseq's checkpoints hold beside tensors and plain Python types, for ``add_safe_globals``."""
    arrays = importlib.import_module(f"numpy.{'core' if np.__version__.startswith('1.') else '_core'}.multiarray")
    rebuild = (arrays._reconstruct, arrays.scalar)
    numbers = [type(np.dtype(code)) for code in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?".split()]
    return [
        argparse.Namespace,  # models and optimizers without a configuration dataclass
        *(np.ndarray, np.dtype, *numbers),  # meters, among them BLEU's counts
        # their names depend on whether numpy 1 or numpy 2 wrote the checkpoint
        *((make, f"numpy.{core}.multiarray.{make.__name__}") for make in rebuild for core in ("core", "_core")),
        # the state that rank 0 sends to the other ranks when a training is resumed
        *(omegaconf.DictConfig, omegaconf.ListConfig, ContainerMetadata, Metadata, AnyNode),
        *(distributed_utils._TensorPlaceholder, typing.Any, collections.defaultdict, dict, list, int),
    ]


def adaptive_softmax_may_share_embeddings():
    """With --share-decoder-input-output-embed and --adaptive-softmax-cutoff, fairseq adds the embeddings to a
    checkpoint that it loads, as an output layer that the model does not have: what was trained cannot be loaded. The
    patch takes them out again."""

    @replace(TransformerDecoderBase, "upgrade_state_dict_named")
    def upgrade_state_dict_named(original, self, state_dict, name):
        upgraded = original(self, state_dict, name)
        if self.output_projection is None:
            upgraded.pop(f"{name}.output_projection.weight", None)
        return upgraded


def load_safely():
    """fairseq leaves it to torch whether loading a checkpoint may run code. The patch forbids it for every version of
    torch: only the types that fairseq itself saves are loaded. ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1`` switches this
    off, which is logged."""
    torch.serialization.add_safe_globals(checkpoint_types())
    unsafe = os.environ.get(UNSAFE_SWITCH, "0").lower() in ("1", "y", "yes", "true")
    if unsafe:
        logger.warning(f"{UNSAFE_SWITCH} is set: loading a checkpoint may run the code that it holds")

    @replace(torch, "load")
    def load(original, *args, weights_only=None, **kwargs):
        return original(*args, weights_only=not unsafe if weights_only is None else weights_only, **kwargs)

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, path, *args, **kwargs):
        try:
            return original(path, *args, **kwargs)
        except UserError:
            raise
        except UNREADABLE as error:
            if getattr(error, "filename", None):  # the file cannot be opened
                raise
            foreign = sealed.foreign_type(error)
            if isinstance(error, pickle.UnpicklingError) and foreign:  # other errors mean that the file is unreadable
                raise UserError(
                    f"the checkpoint {path} holds a {foreign}, a type that fairseq does not save and"
                    " that could run code. It was not loaded; if you trust the source of the file, set"
                    f" {UNSAFE_SWITCH}=1."
                ) from error
            raise UserError(unreadable(path)) from error


def verify_when_loading():
    """torch does not verify a file's checksum when it loads it, so a flipped bit silently changes a weight. The patch
    verifies the checksum first."""

    @replace(torch, "load")
    def load(original, f, *args, **kwargs):
        if isinstance(f, str | os.PathLike):
            with open(f, "rb") as file:
                refuse_damaged(file)
        elif hasattr(f, "readinto") and f.seekable() and not f.tell():  # a whole file
            refuse_damaged(f)
        return original(f, *args, **kwargs)


def weights_may_be_safetensors():
    """fairseq loads files of torch.save only. The patch also loads the weights of ``tools.export --format
    safetensors``, with everything else of the checkpoint from config.json beside them."""

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, path, *args, **kwargs):
        if Path(path).suffix != Path(WEIGHTS).suffix or is_remote(path):
            return original(path, *args, **kwargs)
        with temporarily(torch, load=lambda *args, **kwargs: exported.read(Path(path))):
            return original(path, *args, **kwargs)


def nobody_waits_for_a_pipe():
    """fairseq also opens a named pipe that --path names, and waits for ever. The patch refuses anything but a file."""

    @replace(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, path, *args, **kwargs):
        if not is_remote(path) and not os.path.isdir(path):  # of a folder there is a sentence
            regular(Path(path))
        return original(path, *args, **kwargs)


def refuse_damaged(file: BinaryIO) -> None:
    """Raises UserError if the checksum of an open file is wrong."""
    if why := sealed.damage(file):
        raise UserError(unreadable(getattr(file, "name", "the loaded data"), why))


def unreadable(path, why: str = "") -> str:
    return (
        f"{path} is damaged, truncated or not a checkpoint of fairseq{why and f' ({why})'}; take another one (with"
        " --restore-file to resume a training, with --path to use a model)."
    )


def never_restart_from_zero():
    """If the checkpoint to resume from is missing, fairseq logs one line, starts a new training, and overwrites the
    checkpoints of the old one. The patch stops with a sentence instead."""

    def must_exist(flag, path):  # PathManager, as in the trainer, since the path may be a remote one
        if not file_io.PathManager.isfile(path):
            raise UserError(f"{flag} {path} does not exist; leave the flag out to start a new training.")

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        last = f"checkpoint_last{trainer.checkpoint_suffix}.pt"
        if cfg.restore_file != "checkpoint_last.pt":
            must_exist("--restore-file", cfg.restore_file.replace(".pt", trainer.checkpoint_suffix + ".pt"))
        elif not (Path(cfg.save_dir) / last).is_file():
            if cfg.continue_once is not None:
                must_exist("--continue-once", cfg.continue_once)
            elif others := by_age(Path(cfg.save_dir), f"checkpoint*{trainer.checkpoint_suffix}.pt"):
                raise UserError(
                    f"--save-dir {cfg.save_dir} holds checkpoints but no {last}: a new training would overwrite them."
                    f" Resume with {restore_flag(others[-1], trainer)}, or choose another folder."
                )
        return original(cfg, trainer, **kwargs)


def save_whole_checkpoints():
    """When writing a checkpoint fails, fairseq tries again with the same open file, so the new data follow the rest of
    the old attempt. It copies this file over checkpoint_last.pt, deletes older checkpoints, and ends with status 0. The
    patch writes each checkpoint to a temporary file with a checksum, renames it when it is complete, and ends the
    training with a sentence if that fails."""

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
            resume = "give the same command again to resume"
            if last and not last.name.startswith("checkpoint_last"):
                resume += f", with {restore_flag(last, trainer)}"
            raise UserError(f"{error} Training has ended: {whole}; {resume}.") from error


def restore_flag(checkpoint: Path, trainer) -> str:
    """The flag that resumes from a checkpoint. fairseq adds --checkpoint-suffix to the name that is given."""
    return f"--restore-file {str(checkpoint).removesuffix(trainer.checkpoint_suffix + '.pt')}.pt"


def is_remote(path) -> bool:
    """Does fairseq reach this path through a plugin for remote storage?"""
    return bool(file_io.IOPathManager) and file_io.PathManager.path_requires_pathmanager(str(path))


def by_age(folder: Path, pattern: str) -> list[Path]:
    """The files of these names in a folder, the newest last."""
    return sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)


def last_good(folder: Path) -> Path | None:
    """The newest checkpoint in a folder that is not damaged."""
    for path in reversed(by_age(folder, "checkpoint*.pt")):
        with contextlib.suppress(UserError, OSError):
            sealed.check(path)
            return path
    return None


def every_rank_saves_its_state():
    """fairseq saves the state of rank 0's task only, and does not tell a task where its checkpoints are. The patch
    calls three methods of a task that has them, on every rank: ``before_checkpoints(folder, trainer)`` before the
    checkpoints of an update are written, ``after_checkpoints(paths, trainer)`` afterwards, and ``after_loading(path,
    trainer, epoch_itr)`` when a training is resumed. During these calls ``trainer.checkpoint_identity`` is a name that
    only the checkpoints of one update share, or None for a checkpoint of an earlier version."""

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        task, folder = trainer.task, Path(cfg.save_dir)
        if cfg.no_save or not hasattr(task, "after_checkpoints"):
            return original(cfg, trainer, epoch_itr, val_loss)
        trainer.checkpoint_identity = broadcast_from_rank0(trainer, uuid.uuid4().hex)
        task.before_checkpoints(folder, trainer)
        broadcast_from_rank0(trainer, None)  # a barrier: all files are written before the first checkpoint
        before = checkpoint_stamps(folder, trainer)
        saved = original(cfg, trainer, epoch_itr, val_loss)
        written = [path for path, stamp in checkpoint_stamps(folder, trainer).items() if stamp != before.get(path)]
        task.after_checkpoints(broadcast_from_rank0(trainer, written), trainer)
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
    """For each checkpoint in the folder, values that change when it is written; empty on ranks that write none."""
    if not trainer.should_save_checkpoint_on_current_rank:
        return {}
    stats = {path: path.stat() for path in folder.glob("checkpoint*.pt")}
    return {path: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for path, stat in stats.items()}
