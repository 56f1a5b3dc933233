"""What a language model remembers of the blocks before: an object of its own, handed in and advanced in place.

B streams, n remembered positions, C width; times in tokens.
"""

import weakref

from torch import Tensor, nn


class StreamMemory:
    """Memory of B parallel streams, from block to block.

    The model reads ``caches`` at the start of a block and calls ``advance`` at its end. Whoever owns the streams (the
    task: one memory for training, one for each evaluated split) resets it at their start.

    Attributes:
        caches: [] before the first block, where the model starts from zeros or from nothing; else what the model handed
            over, each [B, n, C], oldest first, detached and as the layers computed it (not normalised), and whatever
            tensor tells how old they are, where they are not of the block before (see `xl_stack`)
        position: how many tokens of each stream went before
    """

    def __init__(self):
        self.reset()

    def reset(self) -> None:
        """To the start of the streams; from now on another model may use it."""
        self.caches: list[Tensor] = []
        self.position = 0
        self._owner = None

    def claim(self, model: nn.Module) -> None:
        """Note which model the memory is of; to be called before it is read.

        Raises:
            ValueError: another model has advanced it since the last reset
        """
        owner = self._owner and self._owner()
        if owner is not None and owner is not model:
            raise ValueError("this memory is of another model; give each model a StreamMemory of its own.")
        self._owner = weakref.ref(model)

    def advance(self, caches: list[Tensor], tokens: int) -> None:
        """Take the model's caches after a block of ``tokens`` tokens; gradients stop here."""
        self.caches = [cache.detach() for cache in caches]
        self.position += tokens

    def state_dict(self) -> dict:
        return {"caches": [cache.cpu() for cache in self.caches], "position": self.position}

    def load_state_dict(self, state: dict, device=None) -> None:
        """Take the state of another memory, its tensors moved to ``device`` if one is given."""
        self.reset()
        self.caches = [cache.to(device) for cache in state["caches"]]
        self.position = state["position"]
