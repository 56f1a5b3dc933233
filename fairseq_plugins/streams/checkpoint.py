"""The state that a training over streams saves beside fairseq's checkpoints, and how a resumed training restores it.

fairseq saves the state of rank 0 only. Each rank has streams of its own, so each writes a file of its own.
"""

import logging
from pathlib import Path

import torch
from fairseq import utils

from fairseq_plugins.compat.distributed import of_all_ranks
from fairseq_plugins.errors import UserError
from fairseq_plugins.random_states import restore_random_state
from fairseq_plugins.streams.groups import split_sample
from fairseq_plugins.streams.memory import TrainingMemory
from fairseq_plugins.streams.rank_files import RankFiles
from fairseq_plugins.streams.stopping import Convergence, LossGuard

logger = logging.getLogger(__name__)


class StreamCheckpoints(RankFiles):
    """Saves and restores the memory, the loss guard, the convergence and the random state of this rank.

    Args:
        args: options of the task
    """

    what, anew = "memory", "start the streams from the beginning"
    way_out = "resume with --memory-in-checkpoint replay, which is not exact, or with --reset-dataloader"

    def __init__(self, args, training: TrainingMemory, guard: LossGuard, convergence: Convergence):
        self.args, self.training, self.guard, self.convergence = args, training, guard, convergence
        self.full = args.memory_in_checkpoint == "full"

    def state(self) -> dict:
        return {
            "memory": self.training.state_dict(),
            "guard": self.guard.state_dict(),
            "convergence": self.convergence.state_dict(),
        }

    def before_checkpoints(self, folder: Path, trainer) -> None:
        self.convergence.end_if_reached(trainer)
        if self.full:
            super().before_checkpoints(folder, trainer)

    def after_checkpoints(self, checkpoints: list[Path], trainer) -> None:
        if self.full:
            super().after_checkpoints(checkpoints, trainer)

    def after_loading(self, checkpoint: Path, trainer, epoch_itr) -> None:
        """Resume the streams where the checkpoint left them. In the middle of an epoch the memory is needed; at the
        beginning of an epoch it is empty."""
        blocks, updates = epoch_itr.iterations_in_epoch, trainer.get_num_updates()
        anew = epoch_itr.epoch == 1 and not blocks  # --reset-dataloader or --finetune-from-model
        if anew:
            epoch_itr.begin_after(updates)
        if not self.full:
            if blocks:
                replay(self.training, trainer, epoch_itr)
            return
        if anew and not updates:  # only the weights are wanted
            return
        try:
            state = self.find(checkpoint, trainer)
        except UserError:
            if not anew:
                raise
            state = None
        if not blocks and not all(of_all_ranks(trainer, state is not None)):
            state = None  # on one rank as on all: they must agree on whether the training has converged
        if state is None:
            if blocks:
                raise self.missing(checkpoint, trainer)
            return
        with self.content_errors(checkpoint):
            if blocks:
                self.restore_memory(state["memory"], trainer)
            self.guard.load_state_dict(state["guard"])
            same_count = state["updates"] == updates  # not with --reset-optimizer
            if self.args.converged_by and same_count and not trainer.cfg.checkpoint.reset_meters:
                self.convergence.load_state_dict(state["convergence"])
                self.convergence.end_again(trainer)
            restore_random_state(state["random"])

    def restore_memory(self, state: dict, trainer) -> None:
        """Load the memory. The model reads one token with a copy of it, which fails in some way for another model's
        memory. Raises ValueError for numbers that are not finite."""
        self.training.load_state_dict(state, trainer.device)
        model = trainer.get_model().eval()
        for memory in self.training.groups:
            tensors = memory.tensors()
            if not all(tensor.isfinite().all() for tensor in tensors):
                raise ValueError("not finite")
            streams = self.args.batch_size // len(self.training.groups) if self.args.batch_size else len(tensors[0])
            with torch.no_grad():
                model(torch.zeros(streams, 1, dtype=torch.long, device=trainer.device), memory=memory.copy())


def replay(training: TrainingMemory, trainer, epoch_itr) -> None:
    """Recompute the memory where no file holds it: the model reads the blocks before the iterator's position again,
    twice as many tokens as its memory depends on, or all if it has no limit. The parameters have changed meanwhile, so
    the memory differs slightly."""
    model, blocks = trainer.get_model(), epoch_itr.iterations_in_epoch
    mine = epoch_itr.frozen_batches[trainer.data_parallel_rank :: trainer.data_parallel_world_size][:blocks]
    end = mine[-1][0].start + mine[-1][0].length
    enough = 2 * model.memory_length or end
    for memory in training.groups:
        memory.reset()
    model.eval()
    for (block,) in mine:
        if block.start + block.length <= end - enough:
            for memory in training.groups:
                memory.position = block.start + block.length
            continue
        sample = epoch_itr.dataset[block]
        if trainer.cuda:
            sample = utils.move_to_cuda(sample)
        with torch.no_grad():
            for part, memory in zip(split_sample(sample, len(training.groups)), training.groups):
                model(**part["net_input"], memory=memory)
    logger.warning(
        f"--memory-in-checkpoint replay: the memory was recomputed from {min(enough, end)} tokens with the current"
        " parameters; the losses will differ slightly from those of an uninterrupted training"
    )
