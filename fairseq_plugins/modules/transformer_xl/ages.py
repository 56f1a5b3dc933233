"""Where the tokens lie that a block looks at, told by their ages.

The age of a token is how far it lies before the first token of the block: 1 for the one just before the block, 0 for
the block's first token itself, 1 - M for the last of its M tokens. A token at place i of the block is i + age away from
it. Tokens that follow one another make a run; a memory that was kept while the stream went on lies further back than
one that was not, and once it takes in tokens again there is a gap between its runs.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor


class Run(NamedTuple):
    """So many tokens in a row, and the age of the last, the newest."""

    length: int
    newest: int

    @property
    def oldest(self) -> int:
        return self.newest + self.length - 1


Ages = tuple[Run, ...]  # oldest first


def of_block(tokens: int) -> Ages:
    return (Run(tokens, 1 - tokens),)


def just_before(tokens: int) -> Ages:
    """Those of a memory of so many tokens that ends where the block begins."""
    return (Run(tokens, 1),) if tokens else ()


def followed_by(ages: Ages, more: Ages) -> Ages:
    """Both, joined where there is no gap."""
    joined = list(ages)
    for run in more:
        if joined and joined[-1].newest == run.oldest + 1:
            run = Run(joined.pop().length + run.length, run.newest)
        joined.append(run)
    return tuple(joined)


def after(ages: Ages, tokens: int) -> Ages:
    """The same once the stream is so many tokens further."""
    return tuple(Run(run.length, run.newest + tokens) for run in ages)


def last(ages: Ages, tokens: int) -> Ages:
    """Those of the last tokens, as many as there are at most."""
    kept: list[Run] = []
    for run in reversed(ages):
        if tokens:
            kept.insert(0, Run(min(run.length, tokens), run.newest))
            tokens -= kept[0].length
    return tuple(kept)


def tensor(ages: Iterable[Run], device=None) -> Tensor:
    """Every token's age [n], oldest first."""
    runs = [torch.arange(run.oldest, run.newest - 1, -1, device=device) for run in ages]
    return torch.cat(runs) if runs else torch.zeros(0, dtype=torch.long, device=device)
