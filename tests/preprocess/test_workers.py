import os

import pytest
from lib.workers import map_in_order

from fairseq_plugins.errors import UserError


def square_or_die(number: int) -> int:
    if number < 0:
        os._exit(1)
    return number**2


def test_results_come_in_order_and_no_more_is_read_than_is_needed():
    read = []
    squares = map_in_order(square_or_die, (read.append(number) or number for number in range(99)), 2)
    assert next(squares) == 0 and len(read) == 8
    assert list(squares) == [number**2 for number in range(1, 99)]


def test_a_process_that_is_ended_is_an_error():
    with pytest.raises(UserError, match="ended from outside"):
        list(map_in_order(square_or_die, [1, -1, 2], 2))
