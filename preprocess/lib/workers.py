"""Functions that run in several processes."""

import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import parent_process

from lib.steps import UserError

AHEAD = 4  # items for each process that are read before their turn


def map_in_order(function, items: Iterable, workers: int) -> Iterator:
    """``function(item)`` for every item, in order. Function, items and results can be sent to other processes.

    Raises:
        UserError: a process was ended from outside
    """
    ahead = deque()
    try:
        with ProcessPoolExecutor(workers, initializer=_start) as pool:
            for item in items:  # pool.map would read all items first
                ahead.append(pool.submit(function, item))
                if len(ahead) == AHEAD * workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
    except BrokenProcessPool:
        raise UserError(
            "one of the processes was ended from outside, as the system does if memory is short: give the same command"
            f" again, with less than --workers {workers} or on a machine with more memory."
        ) from None


def _start() -> None:
    """End this process when its parent was killed: it would wait for work for ever. Leave interrupts to the parent: a
    process that one ends while it holds the lock of a queue stops all others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch():
        parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
