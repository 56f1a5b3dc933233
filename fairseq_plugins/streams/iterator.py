"""The blocks of a split, epoch by epoch, and what a resumed training has to have in common with the one before it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from fairseq.data import iterators

from fairseq_plugins.streams.dataset import Block, BlockSchedule, StreamDataset
from fairseq_plugins.streams.resuming import check_facts


@dataclass
class Cut:
    """How the epochs of a split are cut into blocks.

    Attributes:
        batch: B, streams of each worker
        workers: W
        schedule: the lengths of blocks
        seed: the streams start elsewhere in each epoch, drawn with it; None: at the beginning of the split
    """

    batch: int
    workers: int
    schedule: BlockSchedule
    seed: int | None = None

    @property
    def streams(self) -> int:
        return self.batch * self.workers

    def blocks(self, dataset: StreamDataset, epoch: int) -> list[list[Block]]:
        cuts = self.schedule.cuts(dataset.longest(self.streams), epoch)
        return dataset.blocks(self.batch, self.workers, cuts, self.shift(len(dataset), epoch))

    def shift(self, tokens: int, epoch: int) -> int:
        return 0 if self.seed is None else int(np.random.default_rng([self.seed, epoch]).integers(tokens))

    def facts(self, dataset: StreamDataset) -> dict[str, Any]:
        """All that decides which tokens block i of an epoch holds, by the flag it is given with."""
        schedule = self.schedule
        return {
            "--batch-size, over all workers,": self.streams,
            "--tokens-per-sample": schedule.length,
            "--block-warmup": schedule.warm_length,
            "--block-warmup-updates": schedule.warm_updates,
            "--update-freq": list(schedule.update_freq) if schedule.warm_updates else None,
            "--stream-offset": "zero" if self.seed is None else "random",
            "--seed": self.seed,
            "a number of tokens (--no-end-of-line counts) of": len(dataset),
            "a training split whose checksum is": dataset.checksum,
        }


class StreamIterator(iterators.EpochBatchIterator):
    """fairseq's iterator over the blocks of one worker, never shuffled.

    Args:
        dataset, cut: what is cut, and how
        worker: whose blocks
        options: as of fairseq's
    """

    def __init__(self, dataset: StreamDataset, cut: Cut, worker: int = 0, **options):
        self.cut = cut
        super().__init__(
            dataset,
            dataset.collater,
            cut.blocks,
            num_shards=cut.workers,
            shard_id=worker,
            disable_shuffling=True,
            reuse_dataloader=True,
            **options,
        )

    def begin_after(self, updates: int) -> None:
        """Epoch 1 comes after so many updates: the schedule of block lengths goes on from there."""
        self.cut.schedule.first_update = updates
        self._frozen_batches = None

    def state_dict(self) -> dict:
        facts = self.cut.facts(self.dataset)
        return {**super().state_dict(), "cut": facts, "first_update": self.cut.schedule.first_update}

    def load_state_dict(self, state_dict: dict) -> None:
        """
        Raises:
            UserError: the state is of the middle of an epoch, and the blocks before it were other ones
        """
        if state_dict["iterations_in_epoch"]:
            check_facts(state_dict.get("cut", {}), self.cut.facts(self.dataset), "begin the streams anew")
        self.begin_after(state_dict.get("first_update", 0))
        super().load_state_dict(state_dict)
