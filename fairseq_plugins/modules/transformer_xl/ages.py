"""The ages of tokens tell where they lie in the stream.

The age of a token is its distance to the first token of the block: 1 for the token just before the block, 0 for the
block's first token, 1 - M for the last of its M tokens. The distance from a token to the token at place i of the block
is i + age.

Consecutive tokens form a run. A layer that is skipped retains its memory while the stream moves on, so the memory
grows older. When the memory gets new tokens later, there is a gap between the old run and the new one.

M block length, n tokens.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor


class Run(NamedTuple):
    """Consecutive tokens: how many, and the age of the last one, which is the newest."""

    length: int
    newest: int

    @property
    def oldest(self) -> int:
        return self.newest + self.length - 1


Ages = tuple[Run, ...]  # the oldest run first


def of_block(tokens: int) -> Ages:
    """The ages of a block of `tokens` tokens."""
    return (Run(tokens, 1 - tokens),)


def just_before(tokens: int) -> Ages:
    """The ages of a memory of `tokens` tokens that ends where the block begins."""
    return (Run(tokens, 1),) if tokens else ()


def followed_by(ages: Ages, more: Ages) -> Ages:
    """The ages of both, one after the other. Runs without a gap between them become one."""
    joined = list(ages)
    for run in more:
        if joined and joined[-1].newest == run.oldest + 1:
            run = Run(joined.pop().length + run.length, run.newest)
        joined.append(run)
    return tuple(joined)


def after(ages: Ages, tokens: int) -> Ages:
    """The ages of the same tokens after the stream has moved on by `tokens` tokens."""
    return tuple(Run(run.length, run.newest + tokens) for run in ages)


def last(ages: Ages, tokens: int) -> Ages:
    """The ages of the last `tokens` tokens, or of all if there are fewer."""
    runs: list[Run] = []
    for run in reversed(ages):
        if tokens:
            runs.insert(0, Run(min(run.length, tokens), run.newest))
            tokens -= runs[0].length
    return tuple(runs)


def tensor(ages: Iterable[Run], device=None) -> Tensor:
    """The age of each token [n], the oldest first."""
    runs = [torch.arange(run.oldest, run.newest - 1, -1, device=device) for run in ages]
    return torch.cat(runs) if runs else torch.zeros(0, dtype=torch.long, device=device)
