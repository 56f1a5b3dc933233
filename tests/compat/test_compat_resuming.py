"""The patches of compat/resuming.py. Whole trainings that stop and go on are in cli/test_resumed_epochs.py."""

import types

import numpy as np
import pytest
import torch
from fairseq import optim
from fairseq.data import BaseWrapperDataset, FairseqDataset, iterators
from fairseq.optim.lr_scheduler.polynomial_decay_schedule import (
    PolynomialDecayLRSchedule,
    PolynomialDecayLRScheduleConfig,
)
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import (
    ReduceLROnPlateauLRSchedule,
    ReduceLROnPlateauLRScheduleConfig,
)
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from fakes import fairseqs

from fairseq_plugins.errors import UserError


class Numbers(FairseqDataset):
    """Twenty numbers; fairseq draws their order."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return index

    def collater(self, samples):
        return samples

    def num_tokens(self, index):
        return 1

    size = num_tokens

    def ordered_indices(self):
        return np.random.permutation(20)


class Dated(BaseWrapperDataset):
    """The same, with the epoch."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, index):
        return self.epoch


def make_batches(make=FairseqTask.get_batch_iterator, dataset=None, **options):
    task = FairseqTask(types.SimpleNamespace())
    return make(task, dataset or Numbers(), **{"max_sentences": 3, **options})


def composed(batches) -> list:
    return [batch.tolist() for batch in batches.frozen_batches]


def test_batches_are_those_of_epoch_1_wherever_a_process_begins():
    first, third = make_batches(), make_batches(epoch=3)
    assert composed(first) == composed(third) and third.epoch == third.next_epoch_idx == 3
    original = fairseqs(FairseqTask.get_batch_iterator)
    assert composed(first) == composed(make_batches(original)) != composed(make_batches(original, epoch=3))


def stopped(batches, after=2) -> dict:
    epoch = batches.next_epoch_itr()
    for _ in range(after):
        next(epoch)
    return batches.state_dict()


def test_an_epoch_goes_on_with_its_batches():
    resumed = make_batches()
    resumed.load_state_dict(stopped(make_batches()))
    assert order(resumed) == order(make_batches())[2:]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"num_shards": 2}, "--distributed-world-size 1, where this training has 2"),
        ({"seed": 2}, "--seed 1, where this training has 2"),
        ({"max_sentences": 4}, "other batches: give the same data, --max-tokens, --batch-size"),
    ],
)
def test_an_epoch_does_not_go_on_with_other_batches(options, words):
    state = stopped(make_batches())
    with pytest.raises(UserError, match=f"middle of an epoch with {words}.* begin the data anew with --reset-"):
        make_batches(**options).load_state_dict(state)
    make_batches(**options).load_state_dict({**state, "iterations_in_epoch": 0})
    del state["facts"]  # of earlier versions
    make_batches(**options).load_state_dict(state)


@pytest.mark.parametrize("anew", ["disable_iterator_cache", "update_epoch_batch_itr"])
def test_batches_that_are_composed_for_each_epoch_stay_as_they_are(anew):
    original = fairseqs(FairseqTask.get_batch_iterator)
    assert (
        composed(make_batches(epoch=3, **{anew: True}))
        == composed(make_batches(original, epoch=3))
        != composed(make_batches())
    )


def make_trainer():
    """What a trainer needs to make iterators, with --valid-subset train and --update-ordered-indices-seed."""
    off = "update_epoch_batch_itr grouped_shuffling num_workers data_buffer_size"
    dataset = types.SimpleNamespace(
        train_subset="train", batch_size=3, batch_size_valid=3, required_batch_size_multiple=1,
        update_ordered_indices_seed=True, skip_invalid_size_inputs_valid_test=True,
        max_tokens=None, max_tokens_valid=None, **dict.fromkeys(off.split(), 0),
    )  # fmt: skip
    cfg = types.SimpleNamespace(
        dataset=dataset,
        common=types.SimpleNamespace(seed=1),
        optimization=types.SimpleNamespace(skip_remainder_batch=False),
    )
    task = FairseqTask(types.SimpleNamespace())
    task.datasets["train"] = Numbers()
    return types.SimpleNamespace(
        cfg=cfg, task=task, model=types.SimpleNamespace(max_positions=lambda: None), data_parallel_world_size=1,
        data_parallel_rank=0, reset_dummy_batch=lambda batch: None,
    )  # fmt: skip


def test_a_seed_that_grows_is_that_of_epoch_1():
    first, third = (Trainer.get_train_iterator(make_trainer(), epoch, load_dataset=False) for epoch in (1, 3))
    assert composed(first) == composed(third) and order(third) != order(first)
    assert (first.seed, third.seed) == (2, 2)


def test_a_validation_on_the_training_data_leaves_the_training_alone():
    def next_epoch(validate):
        trainer = make_trainer()
        training = Trainer.get_train_iterator(trainer, 1, load_dataset=False)
        assert len(order(validate(trainer, "train"), shuffle=False)) == 7
        return training.next_epoch_idx

    assert next_epoch(Trainer.get_valid_iterator) == 1
    assert next_epoch(fairseqs(Trainer.get_valid_iterator)) == 2


def order(batches, **options) -> list:
    return [list(batch) for batch in batches.next_epoch_itr(**options)]


def epochs(batches) -> list:
    """Of --curriculum 1: the first epoch is not shuffled."""
    return [order(batches, shuffle=epoch > 1) for epoch in (1, 2)]


def test_batches_are_shuffled_after_the_curriculum(monkeypatch):
    first, second = epochs(make_batches())
    assert first == composed(make_batches()) and second == order(make_batches(epoch=2)) != first
    get = iterators.EpochBatchIterator._get_iterator_for_epoch
    monkeypatch.setattr(iterators.EpochBatchIterator, "_get_iterator_for_epoch", fairseqs(get))
    first, second = epochs(make_batches())
    assert first == second


@pytest.mark.parametrize("make, seen", [(FairseqTask.get_batch_iterator, [1, 2]), (None, [1, 1])])
def test_processes_that_load_data_know_the_epoch(make, seen):
    batches = make_batches(make or fairseqs(FairseqTask.get_batch_iterator), Dated(Numbers()), num_workers=1)
    assert [order(batches)[0][0] for _ in seen] == seen


def test_processes_that_need_not_know_it_are_kept():
    assert make_batches(num_workers=1).persistent_workers


def sgd():
    weights = [torch.nn.Parameter(torch.ones(1))]
    return optim.build_optimizer(types.SimpleNamespace(optimizer="sgd", lr=[1.0], momentum=0, weight_decay=0), weights)


def plateau():
    config = ReduceLROnPlateauLRScheduleConfig(lr=[1.0], lr_patience=1, maximize_best_checkpoint_metric=False)
    return ReduceLROnPlateauLRSchedule(config, sgd())


def test_a_plateau_goes_on():
    """The rate falls after the second validation without a better one, in the process that was resumed after one."""

    def rate_after(load):
        whole, resumed = plateau(), plateau()
        for loss in (1.0, 2.0):
            whole.step(1, loss)
        load(resumed, whole.state_dict())
        resumed.step(3, 2.0)
        return resumed.optimizer.get_lr()

    load = ReduceLROnPlateauLRSchedule.load_state_dict
    assert rate_after(load) == pytest.approx(0.1)
    assert rate_after(fairseqs(load)) == 1
    load(plateau(), {"best": 1.0, "last_epoch": 1})  # as earlier versions saved it


def annealing():
    config = PolynomialDecayLRScheduleConfig(lr=[1.0], force_anneal=2, total_num_update=20)
    return PolynomialDecayLRSchedule(config, sgd())


@pytest.mark.parametrize("stop", [2, 4, 5, 6, 7])
def test_annealing_goes_on(stop):
    """Four epochs of three updates have the rates of a training that never stopped."""

    def rates(resume):
        schedule, rates = annealing(), []
        for update in range(12):
            if update % 3 == 0 or (resume and update == stop):
                if resume and update == stop:
                    state, rate = schedule.state_dict(), schedule.optimizer.get_lr()
                    schedule = annealing()
                    resume(schedule, state)
                    schedule.optimizer.set_lr(rate)
                schedule.step_begin_epoch(1 + update // 3)
            rates.append(schedule.step_update(update))
        return rates

    load = PolynomialDecayLRSchedule.load_state_dict
    assert rates(load) == rates(None)
    assert (rates(fairseqs(load)) != rates(None)) == (stop in (4, 5, 7))
    load(annealing(), {"best": 1.0})  # as earlier versions saved it
