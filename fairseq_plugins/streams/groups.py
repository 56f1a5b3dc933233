"""Groups of the streams of a rank, which --split-streams trains one after the other. A sample and a saved memory are
cut into those of the groups, and put together again.

B streams of the rank, N groups of B / N streams.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from fairseq_plugins.errors import UserError


def check_groups(groups: int, batch: int) -> None:
    """
    Raises:
        UserError: the groups would not have the same number of streams
    """
    if batch % groups:
        raise UserError(
            f"--split-streams {groups} does not divide the {batch} streams of --batch-size into equal groups: choose"
            f" {', '.join(map(str, _divisors(batch)))}."
        )


def more_groups(groups: int, batch: int) -> int | None:
    """At least twice as many groups, of equal numbers of streams; None if each group has one stream already."""
    return next((n for n in _divisors(batch) if n >= 2 * groups), None)


def _divisors(batch: int) -> list[int]:
    return [n for n in range(1, batch + 1) if not batch % n]


def split_sample(sample: dict, groups: int) -> list[dict]:
    """The samples of N groups, from the sample of a block of B streams."""
    if groups == 1:
        return [sample]
    return [_rows(sample, part) for part in _parts(len(sample["lengths"]), groups)]


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


def split_state(state: dict, groups: int) -> list[dict]:
    """The `StreamMemory.state_dict` of N groups, from that of B streams.

    Raises:
        ValueError: the memory is of a number of streams that cannot be cut into N groups
    """
    cut = [_split_tensor(tensor, groups) for tensor in state["caches"]]
    return [{**state, "caches": [parts[group] for parts in cut]} for group in range(groups)]


def join_states(states: list[dict]) -> dict:
    """The `StreamMemory.state_dict` of B streams, from those of N groups. So a file does not depend on N.

    Raises:
        ValueError: the memories are of other models or places
    """
    return {**states[0], "caches": [_join_tensors(parts) for parts in zip(*(s["caches"] for s in states), strict=True)]}


# Which tensors of a memory have a row for each stream: contracts.BodyMemory


def _split_tensor(tensor: Tensor, groups: int) -> tuple[Tensor, ...]:
    if not tensor.is_floating_point():
        return (tensor,) * groups
    if len(tensor) % groups:
        raise ValueError(f"a memory of {len(tensor)} streams cannot be cut into {groups} groups")
    return tensor.chunk(groups)


def _join_tensors(parts: tuple[Tensor, ...]) -> Tensor:
    if parts[0].is_floating_point():
        return torch.cat(parts) if len(parts) > 1 else parts[0]
    if not all(torch.equal(part, parts[0]) for part in parts):
        raise ValueError("the groups of streams are not at the same place")
    return parts[0]


def _parts(streams: int, groups: int) -> list[slice]:
    size = streams // groups
    return [slice(first, first + size) for first in range(0, streams, size)]


def gradients_stay(model) -> AbstractContextManager:
    """A context in which data-parallel training adds up gradients and sends nothing: another group follows."""
    return model.no_sync() if hasattr(model, "no_sync") else nullcontext()


def sum_logged(logged: list[dict]) -> dict:
    """What a criterion has logged of the groups, as of the whole block; its values are sums."""
    return logged[0] if len(logged) == 1 else {name: sum(values[name] for values in logged) for name in logged[0]}
