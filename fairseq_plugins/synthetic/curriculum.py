"""A curriculum: the size of sequences, and the batches that are drawn for an epoch at this size.

B sequences in a batch.
"""

from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import torch
from fairseq.data import FairseqDataset

from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.iterator import ResumableIterator
from fairseq_plugins.synthetic.algorithms import Algorithm

TRAINING, TEST = 0, 1


@dataclass
class Curriculum:
    """The size grows by ``step`` after each epoch at whose end a fresh batch was predicted without errors.

    Attributes:
        algorithm: name of the task
        size: the current size
        step: how much the size grows at a time
        reached: the largest size at which a fresh batch was all correct; 0 if there was none
        tested: the last epoch at whose end there was a test
    """

    algorithm: str
    size: int
    step: int
    reached: int = 0
    tested: int = 0

    def test(self, epoch: int, all_right: bool) -> None:
        """Take the result of a fresh batch at the end of an epoch. Only the first result of an epoch counts."""
        if epoch <= self.tested:
            return
        self.tested = epoch
        if all_right:
            self.reached = self.size
            self.size += self.step

    def state_dict(self) -> dict:
        return asdict(self)

    def load_state_dict(self, state: dict) -> None:
        """
        Raises:
            UserError: the state belongs to another algorithm
        """
        if state["algorithm"] != self.algorithm:
            raise UserError(
                f"the checkpoint was trained with --algorithm {state['algorithm']}, not {self.algorithm}: give the"
                " same one, or choose another --save-dir."
            )
        self.size, self.reached, self.tested = state["size"], state["reached"], state["tested"]


class Draw(NamedTuple):
    """Everything that decides which sequences a batch holds, so no state of a random generator is needed."""

    size: int
    batch: int  # B
    seeds: tuple[int, ...]  # --seed; TRAINING or TEST; epoch; number of the batch


class DrawnDataset(FairseqDataset):
    """Batches that are drawn on access, each as a ``Draw`` says.

    Args:
        algorithm: what is drawn and answered
        first: index of the integer 0 in the dictionary
    """

    def __init__(self, algorithm: Algorithm, first: int):
        super().__init__()
        self.algorithm, self.first = algorithm, first

    def __getitem__(self, draw: Draw) -> dict:
        """A sample with source and target [B, T]."""
        inputs = self.algorithm.inputs(np.random.default_rng(draw.seeds), draw.batch, draw.size)
        source, target = (torch.from_numpy(x + self.first) for x in (inputs, self.algorithm.answers(inputs)))
        lengths = torch.full((draw.batch,), source.size(1))
        return {
            "id": torch.arange(draw.batch),
            "net_input": {"src_tokens": source, "src_lengths": lengths},
            "target": target,
            "ntokens": target.numel(),
            "nsentences": draw.batch,
        }

    def collater(self, samples: list[dict]) -> dict:
        """A batch is one draw, and a draw is already a whole sample."""
        (sample,) = samples
        return sample


class CurriculumIterator(ResumableIterator):
    """Drawn batches. The curriculum is part of the state, since the batches depend on it.

    Args:
        dataset: draws the batches
        curriculum: its size is read when an epoch begins
        draws: a function from an epoch to its batches, those of all ranks in turn
        facts: the settings beside the size that decide the batches of an epoch, by the flag that sets them
        options: as in fairseq's EpochBatchIterator
    """

    reset = "start with the initial size"

    def __init__(self, dataset: DrawnDataset, curriculum: Curriculum, draws, facts: dict[str, int], **options):
        self.curriculum = curriculum
        super().__init__(dataset, lambda _, epoch: [[draw] for draw in draws(epoch)], facts, **options)

    def state_dict(self) -> dict:
        return {**super().state_dict(), "curriculum": self.curriculum.state_dict()}

    def load_state_dict(self, state_dict: dict) -> None:
        """
        Raises:
            UserError: the state belongs to another algorithm, or is from the middle of an epoch with other batches
        """
        self.curriculum.load_state_dict(state_dict["curriculum"])
        self._frozen_batches = None  # drawn with another size
        super().load_state_dict(state_dict)
