"""Models that decode with an output layer of eight bits, if they are asked to: in evaluation and generation only."""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from torch import nn

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.common.int8 import Int8Linear
from fairseq_plugins.options.fields import option


@dataclass
class Int8Flag(FairseqDataclass):
    int8: bool = option(
        False, "in evaluation and generation the output layer computes in eight bits: faster on a CPU, and not exact"
    )


class Int8Output:
    """A decoder with such an output layer. To be named before fairseq's class among the bases."""

    OUTPUT = "output"  # the name of the layer
    int8 = False
    _modules: dict[str, Any]

    def make_generation_fast_(self, **unused) -> None:
        """Called by fairseq once, when the model has its weights and its device. Raises UserError if it cannot."""
        if self.int8:
            layer = self._modules.get(self.OUTPUT)
            if not isinstance(layer, nn.Linear):
                raise UserError("int8 does not work with an adaptive softmax: leave int8 out.")
            try:
                self._modules[self.OUTPUT] = Int8Linear(layer)
            except ValueError as error:
                raise UserError(str(error)) from None
