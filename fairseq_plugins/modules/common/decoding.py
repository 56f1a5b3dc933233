"""The decoding state of a stack of layers."""

from torch import Tensor


class LayerStates(list):
    """One decoding state for each layer (see `contracts.DecodingState`)."""

    def reorder(self, order: Tensor) -> None:
        for state in self:
            state.reorder(order)
