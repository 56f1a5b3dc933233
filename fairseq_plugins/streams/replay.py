"""Recompute the memory of a resumed training, where no file holds it (--memory-in-checkpoint replay)."""

import logging

import torch
from fairseq import utils

from fairseq_plugins.streams.groups import split_sample
from fairseq_plugins.streams.memory import TrainingMemory

logger = logging.getLogger(__name__)


def replay(training: TrainingMemory, trainer, epoch_itr) -> None:
    """Let the model read the blocks before the iterator's position again: twice as many tokens as its memory depends
    on, or all of them where it has no limit. Since the parameters have changed meanwhile, so has the memory, slightly.
    """
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
