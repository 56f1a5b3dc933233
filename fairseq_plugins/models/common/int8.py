"""Models that decode with an output layer of eight bits, if they are asked to."""

from typing import Any

from torch import nn

from fairseq_plugins.errors import UserError
from fairseq_plugins.modules.common.int8 import Int8Linear


class Int8Output:
    """A decoder with such an output layer. To be named before fairseq's class among the bases."""

    OUTPUT = "output"  # the name of the layer
    int8 = False  # is it asked for?
    _modules: dict[str, Any]

    def make_generation_fast_(self, **unused) -> None:
        """Called by fairseq once, when the model has its weights and its device. Raises UserError if it cannot."""
        if self.int8:
            try:
                self._modules[self.OUTPUT] = Int8Linear(self._modules[self.OUTPUT])
            except ValueError as error:
                raise UserError(f"{error}; leave int8 out.") from None


def ask_for_int8(model: nn.Module, name: str) -> None:
    """From ``prepare_for_inference_`` on, the loaded model shall have it. Raises UserError if a model like that of the
    checkpoint ``name`` has none."""
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, Int8Output):
        raise UserError(
            f"{name} is a {type(model).__name__}: int8 is for language and translation models of this suite; leave it"
            " out."
        )
    if not isinstance(decoder._modules.get(decoder.OUTPUT), nn.Linear):
        raise UserError(
            f"{name} has an adaptive softmax or factorised embeddings, for which there is no int8; leave it out."
        )
    decoder.int8 = True


def in_int8(model: nn.Module) -> bool:
    return any(isinstance(module, Int8Linear) for module in model.modules())
