"""What the installed fairseq gets wrong on today's Python, numpy and torch, mended when ``--user-dir`` is loaded.

One function a fault. Each says what the fault is and acts only where it shows: a fairseq without it behaves as
before. A mend wraps fairseq's own function, which stays within reach as ``__wrapped__``; no code of fairseq is
repeated.
"""

import argparse
import ast
import atexit
import collections
import contextlib
import fcntl
import functools
import inspect
import logging
import os
import pickle
import queue
import re
import struct
import threading
import time
import types
import typing
from pathlib import Path

import numpy as np
import omegaconf
import torch
import torch.distributed as dist
from fairseq import checkpoint_utils, file_io, options, search, utils
from fairseq.data import data_utils, indexed_dataset, iterators
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from fairseq.trainer import Trainer
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from fairseq_plugins.errors import UserError

logger = logging.getLogger(__name__)


def apply():
    """Mend everything. ``fairseq_plugins/__init__.py`` calls this before anything else is loaded."""
    keep_last_batch()
    restore_np_compat()
    restore_percentile()
    stop_reading_at_exit()
    overrides_are_options()
    bf16_is_not_tpu()
    no_flat_fp16_on_cpu()
    one_training_per_launch()
    one_training_per_folder()
    data_parallel_on_cpu()
    load_safely()
    never_restart_from_zero()
    copy_whole_checkpoints()
    workers_save_their_state()
    sample_forced_tokens()
    refuse_damaged_data()
    look_for_splits_in_folders()


def replace(owner, name: str):
    """Decorator: put a function in place of ``owner.name``, called with the original first."""

    def install(wrapper):
        original = getattr(owner, name)

        @functools.wraps(original)
        def replacement(*args, **kwargs):
            return wrapper(original, *args, **kwargs)

        static = isinstance(inspect.getattr_static(owner, name), staticmethod)
        setattr(owner, name, staticmethod(replacement) if static else replacement)

    return install


# Data


def keep_last_batch():
    """fairseq drops the last batch unless its size is a multiple of --required-batch-size-multiple, 8 by default: of 60
    sentences it trains on, or translates, 56, and says nothing; of 5 it translates none and divides by zero."""

    @replace(data_utils, "batch_by_size")
    def batch_by_size(original, indices, *args, fixed_shapes=None, **kwargs):
        if fixed_shapes is not None:  # a TPU's: nothing of another shape may be added
            return original(indices, *args, fixed_shapes=fixed_shapes, **kwargs)
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64)
        if not len(indices):
            return []
        batches = list(original(indices, *args, **kwargs))
        # Batches are consecutive pieces of indices, so what is left is the batch that was dropped.
        rest = indices[sum(map(len, batches)) :]
        return [*batches, rest] if len(rest) else batches


def restore_np_compat():
    """numpy 2 has no ``np.compat``, which fairseq-interactive with a language model, --sample-break-mode eos and
    --num-batch-buckets use."""
    if not hasattr(np, "compat"):
        np.compat = types.SimpleNamespace(long=np.int64)


def restore_percentile():
    """numpy 2.4 calls ``interpolation`` of ``np.percentile`` ``method``, which breaks --num-batch-buckets."""
    try:
        np.percentile([0], 50, interpolation="lower")
    except TypeError:

        @replace(np, "percentile")
        def percentile(original, *args, interpolation=None, **kwargs):
            return original(*args, **kwargs, **({"method": interpolation} if interpolation else {}))


def refuse_damaged_data():
    """fairseq maps binarised files without looking at them: a truncated one fails in the middle of training, a
    token outside the dictionary is read from beyond the embedding table."""

    @replace(indexed_dataset.MMapIndexedDataset, "_do_init")
    def map_files(original, self, path):
        data, index = files_of(path)
        try:
            original(self, path)
        except (AssertionError, KeyError, struct.error, ValueError) as error:
            raise UserError(
                f"{data if not data.stat().st_size else index} is damaged or truncated; {AGAIN}."
            ) from error
        promised = int(self.sizes.sum(dtype=np.int64)) * np.dtype(self._index.dtype).itemsize
        if promised != data.stat().st_size:
            raise UserError(
                f"{data} has {data.stat().st_size} bytes where {index.name} says {promised}: one of them is damaged,"
                f" truncated or of another run; {AGAIN}."
            )

    @replace(data_utils, "load_indexed_dataset")
    def load_indexed_dataset(original, path, dictionary=None, *args, **kwargs):
        data, index = files_of(path)
        if data.exists() != index.exists():
            missing, other = (index, data) if data.exists() else (data, index)
            raise UserError(f"{missing} is missing beside {other.name}; {AGAIN}.")
        if index.exists() and indexed_dataset.infer_dataset_impl(path) is None:
            raise UserError(f"{index} is damaged or truncated; {AGAIN}.")
        dataset = original(path, dictionary, *args, **kwargs)
        for part in getattr(dataset, "datasets", [dataset]):
            if dictionary is not None and isinstance(part, indexed_dataset.MMapIndexedDataset) and len(part):
                largest = int(np.frombuffer(part._bin_buffer, dtype=part._index.dtype).max())
                if largest >= len(dictionary):
                    raise UserError(
                        f"{part._path}.bin holds token {largest} but the dictionary has {len(dictionary)} entries:"
                        f" it was binarised with another one; {AGAIN} and this dictionary (--srcdict, --tgtdict)."
                    )
        return dataset

    for half_open in (indexed_dataset.MMapIndexedDataset, indexed_dataset.MMapIndexedDataset.Index):

        @replace(half_open, "__del__")
        def close(original, self):
            with contextlib.suppress(AttributeError):  # of what was never opened; Python would print it as a traceback
                original(self)


AGAIN = "make both of its files again with fairseq-preprocess"


def files_of(path) -> tuple[Path, Path]:
    return Path(indexed_dataset.data_file_path(str(path))), Path(indexed_dataset.index_file_path(str(path)))


def look_for_splits_in_folders():
    """Before it trains, fairseq looks for validation sets that would be left out, also where a task that could have a
    data folder has none."""

    @replace(data_utils, "raise_if_valid_subsets_unintentionally_ignored")
    def raise_if_ignored(original, cfg):
        if getattr(cfg.task, "data", None):
            original(cfg)


def stop_reading_at_exit():
    """fairseq prepares batches in a thread that nothing stops. A training that ends within an epoch, or with an error,
    can catch it inside torch when Python shuts down, and dies of SIGABRT after all its work is done."""

    @atexit.register
    def stop():
        readers = [thread for thread in threading.enumerate() if isinstance(thread, iterators.BackgroundConsumer)]
        deadline = time.monotonic() + 10  # a source that hangs must not keep the process
        for reader in readers:
            reader._max_len = 0  # it ends after the batch at hand
            while reader.is_alive() and time.monotonic() < deadline:
                with contextlib.suppress(queue.Empty):
                    while True:  # make room for that batch
                        reader._queue.get_nowait()
                reader.join(0.05)


# Numbers and processes


def bf16_is_not_tpu():
    """fairseq's parser takes --bf16 for a wish to train on a TPU and then fails for want of torch_xla."""

    @replace(options, "parse_args_and_arch")
    def parse_args_and_arch(original, parser, input_args=None, *args, **kwargs):
        parsed = original(parser, input_args, *args, **kwargs)
        settings = parsed[0] if isinstance(parsed, tuple) else parsed
        if getattr(settings, "bf16", False) and getattr(settings, "tpu", False):
            settings.tpu = getattr(parser.parse_known_args(input_args)[0], "tpu", False)
        return parsed


def no_flat_fp16_on_cpu():
    """--fp16 keeps its 32-bit copy of the weights on a GPU, unless told not to flatten them: on a CPU it fails in the
    first update, with whatever words this build of torch has for a missing GPU."""

    @replace(distributed_utils, "call_main")
    def call_main(original, cfg, main, **kwargs):
        common = cfg.common
        flat = common.fp16 and not (common.memory_efficient_fp16 or common.fp16_no_flatten_grads)
        if flat and on_cpu(cfg) and command_of(main) == "train":
            raise UserError("--fp16 needs a GPU; leave it out, or use --bf16, which also trains on a CPU.")
        return original(cfg, main, **kwargs)


def overrides_are_options():
    """--model-overrides is evaluated as code, and what comes of it used as a dictionary, whatever it is. Names of it
    that the checkpoint has no option of are ignored without a word."""

    named = set()

    @replace(options, "parse_args_and_arch")
    def parse_args_and_arch(original, *args, **kwargs):
        parsed = original(*args, **kwargs)
        settings = parsed[0] if isinstance(parsed, tuple) else parsed
        named.update(dictionary(getattr(settings, "model_overrides", "{}")))
        return parsed

    @replace(checkpoint_utils, "overwrite_args_by_name")
    def overwrite_args_by_name(original, cfg, overrides):
        check_options(cfg, named.intersection(overrides))
        named.clear()  # what the first model has may be unknown to another of an ensemble
        original(cfg, overrides)


def dictionary(text: str) -> dict:
    """ "{'mem_len': 64}" -> {"mem_len": 64}; raises UserError for text of --model-overrides that is none."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, dict):
        raise UserError(f"--model-overrides {text} is no dictionary; write it as \"{{'dropout': 0.1}}\".")
    return value


def check_options(cfg, names) -> None:
    """Raises UserError for a name of --model-overrides that is no option anywhere in a checkpoint's configuration."""
    unknown = sorted(map(str, set(names) - options_in(cfg)))
    if unknown:
        raise UserError(
            f"--model-overrides: the checkpoint has no option {', '.join(unknown)}; write options as the"
            " flags of its training, without -- and with _ for -."
        )


def options_in(cfg) -> set:
    """Names of a configuration and of all its parts."""
    if isinstance(cfg, argparse.Namespace):
        return set(vars(cfg))
    parts = (cfg[name] for name in cfg if name in cfg)  # without those that are still missing
    inner = (options_in(part) for part in parts if isinstance(part, omegaconf.DictConfig | argparse.Namespace))
    return set(cfg).union(*inner)


def on_cpu(cfg) -> bool:
    return cfg.common.cpu or not torch.cuda.is_available()


def command_of(main) -> str:
    """train, eval_lm...: the command that a main function is of, started as a script or as a module."""
    module = inspect.getmodule(main).__spec__
    return module.name.rpartition(".")[2] if module else main.__module__


def one_training_per_launch():
    """Under torchrun without --distributed-world-size fairseq starts as many independent trainings as there are
    processes, all into one folder, and on a CPU it cannot join them at all (it divides by the number of GPUs and
    insists on NCCL). With several processes fairseq-eval-lm prints the first one's share as the whole, and
    fairseq-validate fails."""

    @replace(distributed_utils, "call_main")
    def call_main(original, cfg, main, **kwargs):
        join = cfg.distributed_training
        launched = dist.is_torchelastic_launched() or {"MASTER_ADDR", "MASTER_PORT", "RANK"} <= os.environ.keys()
        processes = int(os.environ.get("WORLD_SIZE", 1)) if launched else 1
        command = command_of(main)
        alone = command in ("eval_lm", "validate")
        if alone and max(processes, join.distributed_world_size) > 1:
            raise UserError(
                f"fairseq-{command.replace('_', '-')} is right in one process only: start it without torchrun"
                " and without --distributed-world-size."
            )
        if command == "train" and join.distributed_init_method is None and processes > 1:
            join.distributed_world_size = processes
            if on_cpu(cfg):
                join.distributed_init_method = "env://"
                join.distributed_rank = int(os.environ["RANK"])
                join.distributed_no_spawn = True
        if on_cpu(cfg) and join.distributed_world_size > 1:
            if join.distributed_init_method is None:
                raise UserError(
                    f"--distributed-world-size {join.distributed_world_size} needs as many GPUs. On a CPU start"
                    f" the processes with torchrun --nproc_per_node {join.distributed_world_size} and without the flag."
                )
            join.distributed_no_spawn = True  # fairseq would spawn one process for each of zero GPUs, and train nothing
            join.distributed_backend = "gloo"
            join.device_id = 0
        return original(cfg, main, **kwargs)


def data_parallel_on_cpu():
    """torch's DistributedDataParallel refuses the GPU number that fairseq gives it with a model on the CPU, and
    fairseq's all_gather_list keeps its buffer on a GPU."""

    @replace(distributed_fairseq_model, "DistributedDataParallel")
    def distributed_data_parallel(original, module, **kwargs):
        if next(module.parameters()).device.type == "cpu":
            kwargs.update(device_ids=None, output_device=None)
        return original(module, **kwargs)

    @replace(distributed_utils, "all_gather_list")
    def all_gather_list(original, data, group=None, max_size=16384):
        group = group or distributed_utils.get_global_group()
        if dist.get_backend(group) != "gloo":
            return original(data, group, max_size)
        gathered = [None] * distributed_utils.get_world_size(group)
        dist.all_gather_object(gathered, utils.move_to_cpu(data), group=group)
        return gathered


def one_training_per_folder():
    """Two trainings into one --save-dir overwrite each other's checkpoints without a word."""

    held = []  # until the process ends, however it ends; workers that outlive it do not inherit this kind of lock

    @replace(checkpoint_utils, "verify_checkpoint_directory")
    def verify_checkpoint_directory(original, save_dir):
        original(save_dir)
        lock = open(Path(save_dir) / ".lock", "w")
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another process is training into --save-dir {save_dir}: wait for it, or choose another folder. Where"
                " torchrun started both, use fairseq-train, which makes one training of them."
            ) from None
        except OSError as error:
            logger.warning(f"cannot lock {lock.name} ({error.strerror}): do not train into {save_dir} twice at a time")
        held.append(lock)


# Generation


def sample_forced_tokens():
    """Sampling draws the forced tokens of a prompt too: one whose probability rounds to zero, as happens at a low
    --temperature, ends in torch's "invalid multinomial distribution"."""

    @replace(search.Sampling, "step")
    def step(original, self, step, lprobs, *args, **kwargs):
        lprobs[lprobs.isfinite()] = lprobs[lprobs.isfinite()].clamp(min=-80)  # e**-80 is above float32's smallest
        return original(self, step, lprobs, *args, **kwargs)


# Checkpoints

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
            raise UserError(
                f"{path} is damaged, truncated or no checkpoint of fairseq; take another one (with --restore-file"
                " to go on training, with --path to use a model)."
            ) from error


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


def copy_whole_checkpoints():
    """fairseq copies the newest checkpoint over checkpoint_last.pt in place: killed there, it leaves half a file."""

    @replace(file_io.PathManager, "copy")
    def copy(original, src_path, dst_path, overwrite=False):
        if file_io.IOPathManager and file_io.PathManager.path_requires_pathmanager(dst_path):
            return original(src_path, dst_path, overwrite)
        copied = original(src_path, f"{dst_path}.tmp", overwrite)
        os.replace(f"{dst_path}.tmp", dst_path)
        return copied and dst_path


def workers_save_their_state():
    """fairseq saves the state of the first worker's task only, and tells no task where. A task with the methods
    ``before_checkpoints``, ``after_checkpoints`` and ``after_loading`` is called on every worker: with the folder
    before the checkpoints of an update are written, with their paths afterwards, with the checkpoint resumed from."""

    @replace(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, epoch_itr, val_loss):
        task, folder = trainer.task, Path(cfg.save_dir)
        if cfg.no_save or not hasattr(task, "after_checkpoints"):
            return original(cfg, trainer, epoch_itr, val_loss)
        task.before_checkpoints(folder, trainer)
        said_by_first(trainer, None)  # that is, when all workers are this far
        before = checkpoint_stamps(folder, trainer)
        saved = original(cfg, trainer, epoch_itr, val_loss)
        written = [path for path, stamp in checkpoint_stamps(folder, trainer).items() if stamp != before.get(path)]
        task.after_checkpoints(said_by_first(trainer, written), trainer)
        return saved

    @replace(Trainer, "load_checkpoint")
    def trainer_load_checkpoint(original, self, filename, *args, **kwargs):
        self.loaded_from = Path(filename)
        return original(self, filename, *args, **kwargs)

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


def said_by_first(trainer, message):
    """What the first worker says here, on every worker; none goes on before all are here."""
    if trainer.data_parallel_world_size == 1:
        return message
    group = trainer.data_parallel_process_group
    return distributed_utils.all_gather_list(message, group=group)[0]
