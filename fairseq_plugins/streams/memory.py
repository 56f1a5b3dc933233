"""The memory in the sample of a block, also if fairseq feeds the blocks of an update again."""

import sys

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.streams.groups import join_states, split_sample, split_state
from fairseq_plugins.streams.stopping import diverged

NO_STREAM = "--sample-break-mode eos is for fairseq-generate, which takes lines as prompts; leave it out."


def with_memory(sample: dict, memory: StreamMemory) -> dict:
    """A copy of a sample, with the memory of the blocks before it in its ``net_input``. Block 0 resets the memory.
    Raises UserError if the sample is not a block of a stream, or not the block that the memory is waiting for."""
    if "block" not in sample:
        raise UserError(NO_STREAM)
    if sample["block"] == 0:
        memory.reset()
    if memory.position != sample["start"]:
        raise UserError(
            f"block {sample['block']} of {sample['split']} starts at token {sample['start']} of its streams, but"
            f" the memory is of {memory.position} tokens: give the blocks of a split in order."
        )
    return {**sample, "net_input": {**sample["net_input"], "memory": memory}}


class TrainingMemory:
    """The memory of the training split's streams on this rank, one StreamMemory for each group of --split-streams.

    fairseq feeds the blocks of an update again in two cases: with --amp, when it has lowered the loss scale; and
    otherwise, when it looks for the cause of an error, usually of gradients that are not finite.
    """

    def __init__(self, groups: int = 1):
        self.groups = [StreamMemory() for _ in range(groups)]
        self._newest_block, self._update_begins, self._before_update = -1, True, self.groups

    def begin_epoch(self) -> None:
        self._newest_block = -1

    def next_block(self, sample: dict, update: int, repeats: bool) -> list[dict]:
        """The sample of each group with its memory.

        Args:
            update: number of the update that the block belongs to, from 1
            repeats: may an update be fed again (--amp)? Then its memory is the one before the update.

        Raises:
            UserError: the block was fed before, and ``repeats`` is not set
        """
        if sample.get("block", 0) <= self._newest_block:
            if not repeats:
                raise _fed_again(update, sample["block"])
            self.groups = [memory.copy() for memory in self._before_update]
        elif repeats and self._update_begins:
            self._before_update = [memory.copy() for memory in self.groups]
        samples = [
            with_memory(part, memory) for part, memory in zip(split_sample(sample, len(self.groups)), self.groups)
        ]
        self._newest_block, self._update_begins = sample["block"], False
        return samples

    def state_dict(self) -> dict:
        """As ``StreamMemory.state_dict``, of all streams of the rank. It does not depend on the number of groups."""
        return join_states([memory.state_dict() for memory in self.groups])

    def load_state_dict(self, state: dict, device=None) -> None:
        """Restore a ``state_dict``, also one of another number of groups. Raises ValueError if the memory does not fit
        these groups, or is empty though tokens were read."""
        for memory, part in zip(self.groups, split_state(state, len(self.groups))):
            memory.load_state_dict(part, device)

    def end_update(self) -> None:
        self._update_begins = True


def _fed_again(update: int, block: int) -> Exception:
    """The error that fairseq is handling when it feeds a block again: gradients that differ between ranks, or gradients
    that are not finite (which --fp16 reports as its smallest loss scale)."""
    error = sys.exception()
    if isinstance(error, Exception) and "inconsistent" in str(error):
        return error
    return diverged("its gradients are not finite", update, block)
