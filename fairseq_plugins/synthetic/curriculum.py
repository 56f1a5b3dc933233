"""A curriculum: how long the sequences are, and the batches drawn for an epoch at that size.

W workers, B sequences in a batch.
"""

from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import torch
from fairseq.data import FairseqDataset, iterators

from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.resuming import check_facts
from fairseq_plugins.synthetic.algorithms import ALGORITHMS

TRAINING, TEST = 0, 1


@dataclass
class Curriculum:
    """Sequences grow by ``step`` after each epoch at whose end a fresh batch was all right.

    Attributes:
        algorithm: name of the task
        size: of the sequences now
        step: how much they grow
        reached: the largest size of which a fresh batch was all right, 0 if there was none
        tested: the last epoch at whose end there was a test
    """

    algorithm: str
    size: int
    step: int
    reached: int = 0
    tested: int = 0

    def test(self, epoch: int, all_right: bool) -> None:
        """Take what came of the fresh batch at the end of an epoch, of which only the first counts."""
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
            UserError: the state is of another task
        """
        if state["algorithm"] != self.algorithm:
            raise UserError(
                f"the checkpoint was trained with --algorithm {state['algorithm']}, not {self.algorithm}: go on with"
                " that one, or choose another --save-dir."
            )
        self.size, self.reached, self.tested = state["size"], state["reached"], state["tested"]


class Draw(NamedTuple):
    """All that decides which sequences a batch holds, so there is no state of a random generator to keep."""

    size: int
    batch: int  # B
    seeds: tuple[int, ...]  # the seed of the run, TRAINING or TEST, the epoch, the batch


class DrawnDataset(FairseqDataset):
    """Batches that are drawn when they are asked for, by a Draw.

    Args:
        algorithm: name of the task
        first: index of the integer 0 in the dictionary
    """

    def __init__(self, algorithm: str, first: int):
        super().__init__()
        self.algorithm, self.first = ALGORITHMS[algorithm], first

    def __getitem__(self, draw: Draw) -> dict:
        """A sample: source and target [B, T]."""
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
        """A batch is drawn as a whole."""
        (sample,) = samples
        return sample


class CurriculumIterator(iterators.EpochBatchIterator):
    """fairseq's iterator over drawn batches. The curriculum is part of its state, as the batches depend on it.

    Args:
        dataset: what is drawn
        curriculum: the size is read when an epoch begins
        draws: epoch -> the batches of all W workers, one after another
        facts: what decides on an epoch beside the size, by flag
        options: as of fairseq's
    """

    def __init__(self, dataset: DrawnDataset, curriculum: Curriculum, draws, facts: dict[str, int], **options):
        self.curriculum, self.facts = curriculum, facts
        super().__init__(
            dataset, dataset.collater, lambda _, epoch: [[draw] for draw in draws(epoch)], disable_shuffling=True,
            **options,
        )  # fmt: skip

    def state_dict(self) -> dict:
        return {**super().state_dict(), "curriculum": self.curriculum.state_dict(), "facts": self.facts}

    def load_state_dict(self, state_dict: dict) -> None:
        """
        Raises:
            UserError: the state is of another task, or of the middle of an epoch that went on otherwise
        """
        if state_dict["iterations_in_epoch"]:
            check_facts(state_dict.get("facts", {}), self.facts, "begin with the first size again")
        self.curriculum.load_state_dict(state_dict["curriculum"])
        self._frozen_batches = None  # they were of the size before
        super().load_state_dict(state_dict)
