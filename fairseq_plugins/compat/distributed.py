"""Patches of how fairseq starts processes and joins them."""

import fcntl
import gc
import inspect
import logging
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # noqa: F401  (now: its defaults hold any process group there is)
from fairseq import checkpoint_utils, utils
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model

from fairseq_plugins.compat.patch import replace
from fairseq_plugins.errors import UserError

logger = logging.getLogger(__name__)


def no_flat_fp16_on_cpu():
    """fairseq's --fp16 allocates the flat 32-bit copy of the weights on a GPU, so on a CPU the first update fails with
    torch's error for a missing GPU. The patch says so before the training starts."""

    @replace(distributed_utils, "call_main")
    def call_main(original, cfg, main, **kwargs):
        common = cfg.common
        flat = common.fp16 and not (common.memory_efficient_fp16 or common.fp16_no_flatten_grads)
        if flat and on_cpu(cfg) and command_of(main) == "train":
            raise UserError("--fp16 needs a GPU; leave it out, or use --bf16, which also trains on a CPU.")
        return original(cfg, main, **kwargs)


def on_cpu(cfg) -> bool:
    return cfg.common.cpu or not torch.cuda.is_available()


def command_of(main) -> str:
    """The command that a main function belongs to (train, eval_lm...), started as a script or as a module."""
    spec = getattr(inspect.getmodule(main), "__spec__", None)
    return spec.name.rpartition(".")[2] if spec else main.__module__


def one_training_per_launch():
    """Under torchrun without --distributed-world-size, fairseq starts one independent training in each process, all in
    the same folder. On a CPU it cannot join the processes at all: it divides by the number of GPUs and requires NCCL.
    With several processes fairseq-eval-lm prints the figures of rank 0's part as those of the whole split, and
    fairseq-validate fails. The patch joins the processes of a launch into one training, on a CPU with gloo, and refuses
    several processes for the two other commands."""

    @replace(distributed_utils, "call_main")
    def call_main(original, cfg, main, **kwargs):
        join = cfg.distributed_training
        processes = launched_processes()
        command = command_of(main)
        alone = command in ("eval_lm", "validate")
        if alone and max(processes, join.distributed_world_size) > 1:
            raise UserError(
                f"fairseq-{command.replace('_', '-')} gives right results in one process only: start it without"
                " torchrun and without --distributed-world-size."
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
            join.distributed_no_spawn = True  # else fairseq starts a process for each GPU: none
            join.distributed_backend = "gloo"
            join.device_id = 0
        return original(cfg, main, **kwargs)


def launched_processes() -> int:
    """The number of processes that torchrun, or another launcher, has started together with this one."""
    launched = dist.is_torchelastic_launched() or {"MASTER_ADDR", "MASTER_PORT", "RANK"} <= os.environ.keys()
    return int(os.environ.get("WORLD_SIZE", 1)) if launched else 1


def leave_the_process_group():
    """fairseq never leaves the process group. gloo's threads free the tensors of the last exchange some time later, and
    need the interpreter for this. If the interpreter has begun to shut down by then, the process dies of SIGABRT after
    all its work ("terminate called without an active exception"). The patch leaves the group, which waits for these
    threads."""

    @replace(distributed_utils, "distributed_main")
    def distributed_main(original, *args):
        original(*args)
        if dist.is_initialized():
            vars(distributed_utils.get_global_group).clear()  # fairseq stores the group here
            gc.collect()  # models and trainers in reference cycles hold it too
            dist.destroy_process_group()


def data_parallel_on_cpu():
    """For a model on a CPU, fairseq passes a GPU number to torch's DistributedDataParallel, which refuses it; and its
    all_gather_list allocates a buffer on a GPU. The patch leaves out the number, and gathers through torch."""

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
    """With fairseq two trainings into one --save-dir silently overwrite each other's checkpoints. The patch locks the
    folder, and removes the temporary files of a training that was killed."""

    held = []  # locks are released when the process ends; data loader processes do not inherit this kind of lock

    @replace(checkpoint_utils, "verify_checkpoint_directory")
    def verify_checkpoint_directory(original, save_dir):
        original(save_dir)
        lock = open(Path(save_dir) / ".lock", "w")  # noqa: SIM115  (held to the end of the process)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another process is training into --save-dir {save_dir}: wait for it, or choose another folder. If"
                " torchrun started both, use fairseq-train, which joins them into one training."
            ) from None
        except OSError as error:
            logger.warning(f"cannot lock {lock.name} ({error.strerror}): do not train into {save_dir} twice at a time")
        held.append(lock)
        for name in ("checkpoint*.partial", "*.memory-*.partial"):
            for half_written in Path(save_dir).glob(name):  # of a training that was killed
                half_written.unlink(missing_ok=True)


def broadcast_from_rank0(trainer, message):
    """The message of rank 0, on every rank. It is also a barrier: no rank returns before all have called it."""
    return of_all_ranks(trainer, message)[0]


def of_all_ranks(trainer, message) -> list:
    """The messages of all ranks, on every rank, in their order. It is also a barrier."""
    if trainer.data_parallel_world_size == 1:
        return [message]
    return distributed_utils.all_gather_list(message, group=trainer.data_parallel_process_group)
