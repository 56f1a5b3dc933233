"""Skip-Retain: how often layers are skipped, and by which coins."""

import pytest
import torch

from fairseq_plugins.modules.transformer_xl.skip_retain import SCHEDULES, SkipRetain, coin


@pytest.mark.parametrize("schedule, expected, of_one_layer", [
    ("none", [0, 0, 0, 0], 0),
    ("linear", [0, 0.125, 0.25, 0], 0),
    ("uniform", [0.1, 0.1, 0.1, 0.1], 0.1),
    ("not-first", [0, 0.1, 0.1, 0.1], 0),
    ("not-last", [0.1, 0.1, 0.1, 0], 0),
    ("inner", [0, 0.1, 0.1, 0], 0),
])  # fmt: skip
def test_schedules(schedule, expected, of_one_layer):
    assert SCHEDULES[schedule](4, 0.1) == expected
    assert SCHEDULES[schedule](1, 0.1) == [of_one_layer]


def test_coins_are_even_and_depend_on_seed_update_and_layer_alone():
    coins = torch.tensor([coin(seed, update, layer) for seed in (1, 2) for update in range(500) for layer in range(4)])
    assert coins.mean().item() == pytest.approx(0.5, abs=0.02)
    assert (coins < 0.1).float().mean().item() == pytest.approx(0.1, abs=0.02)
    assert len(set(coins.tolist())) == len(coins)
    assert coin(1, 2, 3) == pytest.approx(0.100467, abs=1e-6)  # on any machine


def test_two_workers_and_all_micro_batches_of_an_update_skip_the_same_layers():
    torch.manual_seed(1)
    one = SkipRetain("uniform", 8, p=0.5, seed=3)
    torch.manual_seed(2)
    other = SkipRetain("uniform", 8, p=0.5, seed=3)
    drawn = []
    for update in range(5):
        one.set_num_updates(update)
        other.set_num_updates(update)
        drawn.append(one.skipped())
        torch.rand(3)
        assert other.skipped() == one.skipped() == drawn[-1]
    assert len({tuple(skipped) for skipped in drawn}) == 5


def test_layers_are_skipped_as_often_as_the_schedule_says():
    skip = SkipRetain("linear", 4)
    counts = torch.zeros(4)
    for update in range(2000):
        skip.set_num_updates(update)
        counts += torch.tensor(skip.skipped())
    assert (counts / 2000).tolist() == pytest.approx([0, 0.125, 0.25, 0], abs=0.03)


def test_nothing_is_skipped_in_evaluation():
    assert SkipRetain("uniform", 4, p=0.9).eval().skipped() == [False] * 4


@pytest.mark.parametrize(
    "schedule, p, words", [("often", 0.1, "'often' is not one of"), ("uniform", 1.0, "probability 1.0 is not in")]
)
def test_wrong_arguments_are_refused(schedule, p, words):
    with pytest.raises(ValueError, match=words):
        SkipRetain(schedule, 4, p)
