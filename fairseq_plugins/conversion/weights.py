"""The parameters of a checkpoint by their names there, each of which is taken once."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_plugins.errors import UserError


class Weights:
    """
    Args:
        state: a state dict, as a file holds it
        repository: its name, for messages
        prefix: is left out of names; a wrapper for data-parallel training adds one

    Raises:
        UserError: this is no state dict, or a number in it is not finite
    """

    def __init__(self, state: Any, repository: str, prefix: str = "module."):
        self.repository = repository
        if not isinstance(state, Mapping) or not state:
            raise UserError(f"the checkpoint does not hold the parameters that {repository} saves; check --from.")
        self.left: dict[str, Tensor] = {}
        for name, tensor in state.items():
            if not isinstance(name, str) or not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
                raise UserError(f"the checkpoint holds a {type(tensor).__name__} as {name!r}; check --from.")
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise UserError(f"the checkpoint holds weights that are not numbers ({name}); take an earlier one.")
            own = name.removeprefix(prefix)
            if own in self.left:
                raise UserError(f"the checkpoint holds {own} with and without `{prefix}` before it; get it again.")
            self.left[own] = tensor.detach()

    def __contains__(self, name: str) -> bool:
        return name in self.left

    def count(self, prefix: str) -> int:
        """The number of parts of one kind, such as layers, whose numbers follow ``prefix`` in the names."""
        return len({name.removeprefix(prefix).split(".")[0] for name in self.left if name.startswith(prefix)})

    def take(self, name: str, dim: int | None = None) -> Tensor:
        """A parameter, in float32 at least. Raises UserError if there is none of this name and, unless ``dim`` is
        None, of this number of dimensions."""
        if name not in self.left:
            raise UserError(f"the checkpoint has no {name}, so {self.repository} did not save it; check --from.")
        tensor = self.left.pop(name)
        if not tensor.is_floating_point() or dim is not None and tensor.dim() != dim:
            raise UserError(
                f"the checkpoint has {name} as {tensor.dtype} of shape {list(tensor.shape)}, unlike {self.repository};"
                " check --from."
            )
        return tensor.to(torch.promote_types(tensor.dtype, torch.float32))

    def take_all(self, names: Mapping[str, str], dim: int | None = None) -> dict[str, Tensor]:
        """The parameters of a table of names there and here, by the latter."""
        return {ours: self.take(theirs, dim) for theirs, ours in names.items()}

    def take_layers(self, names: Mapping[str, str], place: str = "body.layers") -> dict[str, Tensor]:
        """The same for each layer, of names in a layer, which has a number in ``place`` here."""
        layers = range(self.count("layers."))
        return self.take_all({f"layers.{i}.{old}": f"{place}.{i}.{new}" for i in layers for old, new in names.items()})

    def same(self, names: Iterable[str]) -> bool:
        """Are these parameters equal?"""
        first, *others = [self.left.get(name) for name in names]
        return first is not None and all(other is not None and torch.equal(first, other) for other in others)

    def check_same(self, first: str, other: str) -> None:
        """Raises UserError for two copies of one parameter that differ."""
        if other in self.left and first in self.left and not self.same([first, other]):
            raise UserError(
                f"{first} and {other} are one parameter in {self.repository}, but they differ in this checkpoint:"
                " it was changed or damaged; get it again."
            )

    def take_same(self, names: Iterable[str], dim: int | None = None) -> Tensor:
        """One parameter that was saved under several names. Raises UserError if one of them is missing, or the copies
        differ."""
        first, *others = names
        for other in others:
            self.check_same(first, other)
        return [self.take(name, dim) for name in (first, *others)][0]

    def drop(self, ending: str, constant: Tensor | None = None) -> None:
        """Leave out the tensors whose names end so, which are no parameters. Raises UserError if one of them has
        another value than the constant."""
        for name in [name for name in self.left if name.endswith(ending)]:
            tensor = self.left.pop(name)
            if constant is not None and not torch.allclose(tensor.float(), constant):
                raise UserError(f"{name} of the checkpoint is not the constant that it should be; get it again.")

    def finish(self) -> None:
        """Raises UserError if a tensor was not taken, so the model has parts that are not known here."""
        if self.left:
            name, *others = self.left
            more = f" and {len(others)} more" if others else ""
            raise UserError(
                f"the checkpoint has {name}{more}, which no model of {self.repository} that can be converted has; check"
                " --from."
            )


@contextmanager
def shapes_that_fit(path: Path, repository: str) -> Iterator[None]:
    """In this context an error with the parameters of a checkpoint is one of its shapes. Raises UserError if there was
    such an error."""
    try:
        yield
    except UserError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} does not have the shapes that {repository} saves ({type(error).__name__}:"
            f" {str(error).splitlines()[0]}); check --from, or get it again."
        ) from error


def model_of(checkpoint: Any, repository: str) -> Weights:
    """The parameters in a checkpoint that holds more. Raises UserError if there are none."""
    if not isinstance(checkpoint, Mapping) or "model" not in checkpoint:
        raise UserError(f"the checkpoint has no part `model`, which {repository} saves; check --from.")
    return Weights(checkpoint["model"], repository)
