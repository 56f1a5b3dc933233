"""How the memory gets into a sample, block after block, also where fairseq feeds an update again."""

import sys

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.streams.loss_guard import diverged

NO_STREAM = "--sample-break-mode eos is for fairseq-generate, which takes lines as prompts; leave it out."


def with_memory(sample: dict, memory: StreamMemory) -> dict:
    """A copy of a sample, with the memory of the blocks before it in its ``net_input``. Block 0 resets the memory.

    Raises:
        UserError: the sample is not a block of a stream, or not the block that the memory is waiting for
    """
    if "block" not in sample:
        raise UserError(NO_STREAM)
    if sample["block"] == 0:
        memory.reset()
    if memory.position != sample["start"]:
        raise UserError(
            f"block {sample['block']} of {sample['split']} starts at token {sample['start']} of its streams, but"
            f" the memory is of {memory.position} tokens: after running out of memory, lower --batch-size."
        )
    return {**sample, "net_input": {**sample["net_input"], "memory": memory}}


class TrainingMemory:
    """The memory of the training split's streams on this rank.

    fairseq feeds the blocks of an update again in two cases: with --amp, when it has lowered the loss scale; and
    otherwise, when it looks for the cause of an error, usually of gradients that are not finite.
    """

    def __init__(self):
        self.memory = StreamMemory()
        self._newest_block, self._update_begins, self._before_update = -1, True, None

    def begin_epoch(self) -> None:
        self._newest_block = -1

    def next_block(self, sample: dict, update: int, repeats: bool) -> dict:
        """The sample with its memory.

        Args:
            update: number of the update that the block belongs to, from 1
            repeats: may an update be fed again (--amp)? Then its memory is the one before the update.

        Raises:
            UserError: the block was fed before, and ``repeats`` is not set
        """
        if sample.get("block", 0) <= self._newest_block:
            if not repeats:
                raise _fed_again(update, sample["block"])
            self.memory = self._before_update.copy()
        elif repeats and self._update_begins:
            self._before_update = self.memory.copy()
        sample = with_memory(sample, self.memory)
        self._newest_block, self._update_begins = sample["block"], False
        return sample

    def end_update(self) -> None:
        self._update_begins = True


def _fed_again(update: int, block: int) -> Exception:
    """The error that fairseq is handling when it feeds a block again: gradients that differ between ranks, or gradients
    that are not finite (which --fp16 reports as its smallest loss scale)."""
    error = sys.exception()
    if error and "inconsistent" in str(error):
        return error
    return UserError(diverged("its gradients are not finite", update, block))
