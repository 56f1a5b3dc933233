"""Groups of the streams of a rank, which --split-streams trains one after the other, so that they need less memory.

B streams of the rank, N groups of B / N streams.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor

from fairseq_plugins.errors import NO_MEMORY, OutOfMemory, UserError


def check_groups(groups: int, batch: int) -> None:
    """Raises UserError if the groups would have different numbers of streams."""
    if batch % groups:
        raise UserError(
            f"--split-streams {groups} does not divide the {batch} streams of --batch-size into equal groups: choose"
            f" {', '.join(map(str, _divisors(batch)))}."
        )


def _divisors(batch: int) -> list[int]:
    return [n for n in range(1, batch + 1) if not batch % n]


@contextmanager
def memory_errors(way_out: str) -> Iterator[None]:
    """A context in which running out of memory ends the training. fairseq would leave out the batch, but each block
    belongs to its streams. Raises OutOfMemory with a text that ends in ``way_out``."""
    try:
        yield
    except RuntimeError as error:
        if not NO_MEMORY.search(str(error)):
            raise
        raise OutOfMemory(f"memory ran out {way_out}") from error


def in_training(groups: int, batch: int) -> str:
    """How to train ``batch`` streams with less memory than in so many groups: in at least twice as many. Recipes read
    the number (recipes/lib/training.py)."""
    more = next((n for n in _divisors(batch) if n >= 2 * groups), None)
    if more is None:
        return "with one stream at a time: lower --tokens-per-sample, or take a GPU with more memory."
    return f"with {batch // groups} streams at a time: train them in more groups, with --split-streams {more}."


def in_validation(streams: int) -> str:
    return f"in validation with {streams} streams: lower --batch-size-valid."


def split_sample(sample: dict, groups: int) -> list[dict]:
    """The samples of N groups, from the sample of a block of B streams."""
    if groups == 1:
        return [sample]
    size = len(sample["lengths"]) // groups
    return [_rows(sample, slice(first, first + size)) for first in range(0, groups * size, size)]


def _rows(sample: dict, rows: slice) -> dict:
    lengths = sample["lengths"][rows]
    return {
        **sample,
        "id": sample["id"][rows],
        "net_input": {name: tensor[rows] for name, tensor in sample["net_input"].items()},
        "target": sample["target"][rows],
        "lengths": lengths,
        "ntokens": sum(lengths),
        "nsentences": len(lengths),
    }


# contracts.BodyMemory says which tensors of a memory have a row for each stream


def split_state(state: dict, groups: int) -> list[dict]:
    """The `StreamMemory.state_dict` of N groups, from that of B streams. Raises ValueError if N does not divide B."""

    def split(tensor: Tensor) -> Sequence[Tensor]:
        if not tensor.is_floating_point():
            return [tensor] * groups
        if len(tensor) % groups:
            raise ValueError(f"a memory of {len(tensor)} streams cannot be cut into {groups} groups")
        return tensor.chunk(groups)

    cut = [split(tensor) for tensor in state["caches"]]
    return [{**state, "caches": [parts[group] for parts in cut]} for group in range(groups)]


def join_states(states: list[dict]) -> dict:
    """The `StreamMemory.state_dict` of B streams, from those of N groups. So a file does not depend on N. Raises
    ValueError if the memories are of other models or places."""

    def join(*parts: Tensor) -> Tensor:
        if parts[0].is_floating_point():
            return torch.cat(parts) if len(parts) > 1 else parts[0]
        if not all(torch.equal(part, parts[0]) for part in parts):
            raise ValueError("the groups of streams are not at the same place")
        return parts[0]

    return {**states[0], "caches": [join(*parts) for parts in zip(*(s["caches"] for s in states), strict=True)]}


def gradients_stay(model) -> AbstractContextManager:
    """A context in which data-parallel training adds up gradients and sends nothing: another group follows."""
    return model.no_sync() if hasattr(model, "no_sync") else nullcontext()


def sum_logged(logged: Sequence[dict]) -> dict:
    """The log of a whole block, from the criterion's logs of its groups, whose values are sums."""
    return logged[0] if len(logged) == 1 else {name: sum(values[name] for values in logged) for name in logged[0]}
