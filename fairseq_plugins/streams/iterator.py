"""The blocks of a split, epoch by epoch, and the settings that a resumed training must share with the one before it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from fairseq.data import iterators

from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.dataset import Block, BlockSchedule, StreamDataset


class ResumableIterator(iterators.EpochBatchIterator):
    """fairseq's iterator over batches in a fixed order. In the middle of an epoch it can only be resumed with the
    settings that the epoch began with, since other settings mean other batches.

    Args:
        batches: lists for the dataset's ``collater``, or a function from the split and the epoch to them
        facts: everything that decides the batches of an epoch, by the flag that sets it
        options: as in fairseq's EpochBatchIterator
    """

    reset: ClassVar[str]  # the effect of --reset-dataloader, as a command: "begin new episodes"

    def __init__(self, dataset, batches, facts: dict[str, Any], **options):
        self.facts = facts
        super().__init__(dataset, dataset.collater, batches, disable_shuffling=True, **options)

    def state_dict(self) -> dict:
        return {**super().state_dict(), "facts": self.facts}

    def load_state_dict(self, state_dict: dict) -> None:
        """Raises UserError for a state from the middle of an epoch with other settings."""
        if state_dict["iterations_in_epoch"]:
            # checkpoints of earlier versions call them "cut", and some of them otherwise, or say nothing
            before = state_dict.get("facts", state_dict.get("cut", {}))
            before = {RENAMED.get(name, name): value for name, value in before.items()}
            check_facts(before, self.facts, self.reset)
        super().load_state_dict(state_dict)


def check_facts(before: dict[str, Any], now: dict[str, Any], reset: str) -> None:
    """Raises UserError if the settings that decided the batches of the epoch differ from those of this training."""
    for name, value in before.items():
        if now.get(name) != value:
            raise UserError(
                f"the checkpoint is from the middle of an epoch with {name} {value}, where this training has"
                f" {now.get(name)}: give the same settings, or {reset} with --reset-dataloader."
            )


BATCH_SIZE = "--batch-size, over all ranks,"
RENAMED = {"--batch-size, over all workers,": BATCH_SIZE}  # facts, in checkpoints of earlier versions


@dataclass
class StreamLayout:
    """How the epochs of a split are divided into streams and blocks.

    Attributes:
        batch: B, streams of each rank
        world_size: number of ranks
        schedule: the lengths of blocks
        seed: each epoch starts the streams at another token of the split, drawn with this seed; None: at the first
    """

    batch: int
    world_size: int
    schedule: BlockSchedule
    seed: int | None = None

    @property
    def streams(self) -> int:
        return self.batch * self.world_size

    def blocks(self, dataset: StreamDataset, epoch: int) -> list[list[Block]]:
        cuts = self.schedule.cuts(dataset.longest(self.streams), epoch)
        return dataset.blocks(self.batch, self.world_size, cuts, self.shift(len(dataset), epoch))

    def shift(self, tokens: int, epoch: int) -> int:
        return 0 if self.seed is None else int(np.random.default_rng([self.seed, epoch]).integers(tokens))

    def facts(self, dataset: StreamDataset) -> dict[str, Any]:
        """Everything that decides which tokens block i of an epoch holds, by the flag that sets it."""
        schedule = self.schedule
        return {
            BATCH_SIZE: self.streams,
            "--tokens-per-sample": schedule.length,
            "--block-warmup": schedule.warm_length,
            "--block-warmup-updates": schedule.warm_updates,
            "--update-freq": list(schedule.update_freq) if schedule.warm_updates else None,
            "--stream-offset": "zero" if self.seed is None else "random",
            "--seed": self.seed,
            **dataset.facts,
        }


class StreamIterator(ResumableIterator):
    """The blocks of one rank, never shuffled."""

    reset = "start the streams from the beginning"

    def __init__(self, dataset: StreamDataset, layout: StreamLayout, rank: int = 0, **options):
        self.layout = layout
        options |= {"num_shards": layout.world_size, "shard_id": rank, "reuse_dataloader": True}
        super().__init__(dataset, layout.blocks, layout.facts(dataset), **options)

    def begin_after(self, updates: int) -> None:
        """Count ``updates`` updates before epoch 1, so that the schedule of block lengths continues from there."""
        self.layout.schedule.first_update = updates
        self._frozen_batches = None

    def state_dict(self) -> dict:
        return {**super().state_dict(), "first_update": self.layout.schedule.first_update}

    def load_state_dict(self, state_dict: dict) -> None:
        self.begin_after(state_dict.get("first_update", 0))
        super().load_state_dict(state_dict)
