import math

import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.stopping import LossGuard


@pytest.mark.parametrize(
    "losses",
    [
        [3 + 4 * 0.98**update + (2 if update % 10 == 0 else 0) for update in range(400)],  # falls, with noise
        [6.2, 8.6, 30.0, 12.0, *[7.0] * 100],  # has a wild start
    ],
)
def test_a_usual_loss_passes(losses):
    guard = LossGuard(margin=1.0)
    for update, loss in enumerate(losses):
        guard.check(loss, update, block=update)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_with_update_and_block(loss):
    with pytest.raises(UserError, match=f"update 7, block 3 .*the loss is {loss}.*--lr"):
        LossGuard(margin=1.0).check(loss, update=7, block=3)


def test_a_loss_that_stays_high_stops():
    guard = LossGuard(margin=1.0)
    for update in range(100):
        guard.check(2.0, update, block=0)
    with pytest.raises(UserError, match="rose to .* from 2.000 .*--max-loss-rise 1.0"):
        for update in range(100, 140):
            guard.check(4.0, update, block=0)
    assert 110 < update < 140


def test_zero_switches_it_off():
    guard = LossGuard(margin=0)
    for loss in (1.0, 1000.0, math.nan):
        guard.check(loss, 1, 1)


def test_it_goes_on_as_if_never_stopped():
    one, other = LossGuard(1.0), LossGuard(1.0)
    for update in range(60):
        one.check(3 - update / 60, update, 0)
    other.load_state_dict(one.state_dict())
    for guard in (one, other):
        guard.check(2.5, 61, 0)
    assert one.state_dict() == other.state_dict()
