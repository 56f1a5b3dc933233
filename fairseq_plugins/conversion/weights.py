"""The parameters of a checkpoint by their names there, each of which is taken once."""

import re
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
        prefix: what names may begin with, which is left out: a wrapper for data-parallel training adds one

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

    def matching(self, pattern: str) -> list[re.Match]:
        """The matches of a pattern with whole names that have not been taken."""
        return [match for match in map(re.compile(pattern).fullmatch, self.left) if match]

    def count(self, pattern: str) -> int:
        """How many there are of what names number, such as layers: the different numbers in ``pattern``."""
        return len({match[1] for match in self.matching(pattern)})

    def take(self, name: str, dim: int | None = None) -> Tensor:
        """A parameter, in float32 at least.

        Args:
            dim: how many dimensions it must have; None: any number

        Raises:
            UserError: there is none of this name and form
        """
        if name not in self.left:
            raise UserError(f"the checkpoint has no {name}, so {self.repository} did not save it; check --from.")
        tensor = self.left.pop(name)
        if not tensor.is_floating_point() or dim is not None and tensor.dim() != dim:
            raise UserError(
                f"the checkpoint has {name} as {tensor.dtype} of shape {list(tensor.shape)}, unlike {self.repository};"
                " check --from."
            )
        return tensor.to(torch.promote_types(tensor.dtype, torch.float32))

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

    def tie(self, name: str, copy: str) -> None:
        """These are one parameter, of which the file may lack the copy.

        Raises:
            UserError: it has a copy that differs
        """
        self.check_same(name, copy)
        if name in self.left:
            self.left.setdefault(copy, self.left[name])

    def take_same(self, names: Iterable[str], dim: int | None = None) -> Tensor:
        """One parameter that was saved under several names.

        Raises:
            UserError: one of them is missing, or the copies differ
        """
        first, *others = list(names)
        for other in others:
            self.check_same(first, other)
        tensor = self.take(first, dim)
        for other in others:
            self.take(other, dim)
        return tensor

    def drop(self, pattern: str, constant: Tensor | None = None) -> None:
        """Leave out what is no parameter, by a pattern of whole names.

        Args:
            constant: what all of them are; None: anything

        Raises:
            UserError: one of them is something else
        """
        for match in self.matching(pattern):
            if constant is not None and not torch.allclose(self.take(match[0]).float(), constant):
                raise UserError(f"{match[0]} of the checkpoint is not the constant that it should be; get it again.")
            self.left.pop(match[0], None)

    def finish(self) -> None:
        """
        Raises:
            UserError: something was not taken, so the model has parts that are not known here
        """
        if self.left:
            name, *others = self.left
            more = f" and {len(others)} more" if others else ""
            raise UserError(
                f"the checkpoint has {name}{more}, which no model of {self.repository} that can be converted has; check"
                " --from."
            )


@contextmanager
def shapes_that_fit(path: Path, repository: str) -> Iterator[None]:
    """In this context an error with the parameters of a checkpoint is one of its shapes.

    Raises:
        UserError: there was such an error
    """
    try:
        yield
    except UserError:
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} does not have the shapes that {repository} saves ({type(error).__name__}:"
            f" {str(error).splitlines()[0]}); check --from, or get it again."
        ) from error


def model_of(checkpoint: Any, repository: str) -> Any:
    """The state dict in a checkpoint that holds more.

    Raises:
        UserError: there is none
    """
    if not isinstance(checkpoint, Mapping) or "model" not in checkpoint:
        raise UserError(f"the checkpoint has no part `model`, which {repository} saves; check --from.")
    return checkpoint["model"]
