"""A learning rate that goes up and down."""

import pytest
from fairseq.optim import FairseqOptimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY

from fairseq_plugins.errors import UserError
from fairseq_plugins.optim.cosine_wave import CosineWaveConfig


class NoOptimizer(FairseqOptimizer):
    def set_lr(self, lr):
        pass


def rates(name, updates, **options):
    config = CosineWaveConfig(**{"lr": [0.4], "warmup_updates": 10, "lr_period_updates": 20, "lr_shrink": 1, **options})
    scheduler = LR_SCHEDULER_REGISTRY[name](config, NoOptimizer(None))
    return [scheduler.step_update(update) for update in updates]


def test_the_first_fall_is_fairseqs_and_the_rise_is_it_backwards():
    ours = rates("cosine_wave", range(51))
    assert ours[:30] == pytest.approx(rates("cosine", range(30)))
    assert ours[30] == pytest.approx(0) and ours[10] == ours[50] == pytest.approx(0.4)
    assert ours[30:51] == pytest.approx(ours[10:31][::-1])


def test_it_goes_on_for_ever_above_a_lowest_rate():
    one, later = rates("cosine_wave", [17, 17 + 7 * 40], min_lr=0.1)
    assert one == pytest.approx(later) and 0.1 < one < 0.4
    assert min(rates("cosine_wave", range(10, 90), min_lr=0.1)) == pytest.approx(0.1)


def test_with_a_wave_in_the_warm_up_the_rate_is_0_at_its_end():
    """WikiText-103 of the Skip Cross-Head paper, in its authors' code."""
    code = {"lr": [0.00025], "warmup_updates": 16000, "lr_period_updates": 16000, "wave_in_warmup": True}
    updates = [0, 8000, 15999, 16000, 24000, 32000, 48000, 64000]
    expected = [0, 0.5, 15999 / 16000, 0, 0.5, 1, 0, 1]
    assert rates("cosine_wave", updates, **code) == pytest.approx([0.00025 * part for part in expected], abs=1e-12)


def test_by_default_it_falls_until_the_last_update():
    given = {"lr_period_updates": -1, "max_update": 30}
    assert rates("cosine_wave", range(31), **given) == rates("cosine_wave", range(31))


@pytest.mark.parametrize(
    "options, updates",
    [
        ({"lr_period_updates": -1, "max_update": 10}, "0"),
        ({"lr_period_updates": -1, "max_update": 0}, "-10"),
        ({"lr_period_updates": 0.5}, "0.5"),
    ],
)
def test_no_fall_is_refused(options, updates):
    with pytest.raises(UserError, match=f"would have a period of {updates} updates: give --lr-period-updates"):
        rates("cosine_wave", [], **options)
