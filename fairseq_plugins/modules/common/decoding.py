"""What decoding carries from token to token."""

from torch import Tensor


class LayerStates(list):
    """The decoding state of a stack: one state for each layer."""

    def reorder(self, order: Tensor) -> None:
        """Continue row order[i] of the batch as row i."""
        for state in self:
            state.reorder(order)
