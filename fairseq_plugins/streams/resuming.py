"""May a training be resumed in the middle of an epoch with these settings?"""

from typing import Any, ClassVar

from fairseq.data import iterators

from fairseq_plugins.errors import UserError


class ResumableIterator(iterators.EpochBatchIterator):
    """fairseq's iterator over batches in a fixed order. In the middle of an epoch it is resumed with the settings that
    the epoch began with only, since other settings mean other batches.

    Args:
        dataset: the split
        batches: lists of what the dataset's ``collater`` takes, or a function from the split and the epoch to them
        facts: everything that decides the batches of an epoch, by the flag that sets it
        options: as in fairseq's EpochBatchIterator
    """

    reset: ClassVar[str]  # what --reset-dataloader does here, as a command: "begin new episodes"

    def __init__(self, dataset, batches, facts: dict[str, Any], **options):
        self.facts = facts
        super().__init__(dataset, dataset.collater, batches, disable_shuffling=True, **options)

    def state_dict(self) -> dict:
        return {**super().state_dict(), "facts": self.facts}

    def load_state_dict(self, state_dict: dict) -> None:
        """
        Raises:
            UserError: the state is from the middle of an epoch, with other settings
        """
        if state_dict["iterations_in_epoch"]:
            check_facts(self.facts_in(state_dict), self.facts, self.reset)
        super().load_state_dict(state_dict)

    @staticmethod
    def facts_in(state_dict: dict) -> dict[str, Any]:
        """The facts of a state; checkpoints of earlier versions call them "cut", or say nothing."""
        return state_dict.get("facts", state_dict.get("cut", {}))


def check_facts(before: dict[str, Any], now: dict[str, Any], reset: str) -> None:
    """
    Args:
        before: the settings that decided the batches of the epoch, by the flag that sets them
        now: the same settings of this training
        reset: what --reset-dataloader does here

    Raises:
        UserError: the settings differ
    """
    for name, value in before.items():
        if now.get(name) != value:
            raise UserError(
                f"the checkpoint is from the middle of an epoch with {name} {value}, where this training has"
                f" {now.get(name)}: give the same settings, or {reset} with --reset-dataloader."
            )
