"""Where memory runs out, a training over streams ends: each block belongs to its streams, so none can be left out, as
fairseq leaves out batches."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from fairseq_plugins.errors import OutOfMemory
from fairseq_plugins.streams.groups import more_groups

NO_MEMORY = re.compile("out of memory|allocate memory|ALLOC_FAILED")  # of CUDA, of a CPU, of NVIDIA's libraries


@contextmanager
def memory_has_to_do(way_out: str) -> Iterator[None]:
    """A context in which running out of memory is an error that says how to need less.

    Raises:
        OutOfMemory: memory ran out; the text ends in ``way_out``
    """
    try:
        yield
    except RuntimeError as error:
        if not NO_MEMORY.search(str(error)):
            raise
        raise OutOfMemory(f"memory ran out {way_out}") from error


def in_training(groups: int, batch: int) -> str:
    """How to train ``batch`` streams, which were in so many groups, with less memory. Recipes read the number
    (recipes/lib/training.py)."""
    streams, more = batch // groups, more_groups(groups, batch)
    if more is None:
        return "with one stream at a time: lower --tokens-per-sample, or take a GPU with more memory."
    return f"with {streams} streams at a time: train them in more groups, with --split-streams {more}."


def in_validation(streams: int) -> str:
    return f"in validation with {streams} streams: lower --batch-size-valid."
