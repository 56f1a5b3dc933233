"""Patches of resumed trainings: nothing may depend on the epoch or update in which a process began."""

import argparse
import zlib
from typing import Any

import numpy as np
from fairseq import checkpoint_utils
from fairseq.data import iterators
from fairseq.data.fairseq_dataset import EpochListening
from fairseq.optim.lr_scheduler.polynomial_decay_schedule import PolynomialDecayLRSchedule
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from fairseq_plugins.compat.patch import replace, temporarily
from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.iterator import check_facts


def batches_do_not_depend_on_the_start():
    """fairseq composes batches with --seed plus the epoch in which the process began, and keeps them. So a training
    that was resumed in a later epoch has other batches, and within that epoch some sentences come twice and others
    never. The patch composes them as in epoch 1, as a training does that never stopped. Where batches are composed anew
    for each epoch (shards of data, --update-epoch-batch-itr) they depend on the epoch only, and stay as they are. Some
    tasks shuffle the data when they are loaded, by the epoch: the patch loads them as in epoch 1, too."""

    grows = argparse.Namespace(seed=False)  # with each epoch: --update-ordered-indices-seed

    @replace(Trainer, "get_train_iterator")
    def get_train_iterator(original, self, *args, **kwargs):
        load = self.task.load_dataset
        if not self.task.has_sharded_data("train"):

            def load(split, original=load, **options):
                return original(split, **{**options, "epoch": 1})

        seed = self.cfg.dataset.update_ordered_indices_seed
        with temporarily(grows, seed=seed), temporarily(self.task, load_dataset=load):
            return original(self, *args, **kwargs)

    @replace(FairseqTask, "get_batch_iterator")
    def get_batch_iterator(original, self, dataset, *args, epoch=1, seed=1, **kwargs):
        anew = kwargs.get("disable_iterator_cache") or kwargs.get("update_epoch_batch_itr")
        anew = anew or not self.can_reuse_epoch_itr(dataset) or getattr(self.cfg, "rebuild_batches", False)
        anew = anew and getattr(getattr(self, "args", None), "sampling_method", "") != "RoundRobin"  # which keeps them
        if epoch == 1 or anew or dataset in self.dataset_to_epoch_iter:
            return original(self, dataset, *args, epoch=epoch, seed=seed, **kwargs)
        batches = original(self, dataset, *args, epoch=1, seed=seed - grows.seed * (epoch - 1), **kwargs)
        batches.epoch = epoch
        dataset.set_epoch(epoch)
        return batches


def an_epoch_goes_on_with_its_batches():
    """fairseq saves how many batches of an epoch were read, but not which. A training that is resumed within an epoch
    with another number of processes, other --max-tokens, --batch-size or --seed, or other data, reads some sentences
    twice and others never, or ends in a traceback. The patch saves what decides the batches, and refuses others."""

    @replace(iterators.EpochBatchIterator, "state_dict")
    def state_dict(original, self):
        state = original(self)
        within = type(self) is iterators.EpochBatchIterator and state["iterations_in_epoch"]
        return {**state, "facts": facts_of(self)} if within else state

    @replace(iterators.EpochBatchIterator, "load_state_dict")
    def load_state_dict(original, self, state_dict):
        if type(self) is iterators.EpochBatchIterator and state_dict.get("iterations_in_epoch"):
            now = facts_of(self)
            before = {"batches": now["batches"], **state_dict.get("facts", {})}  # earlier versions saved none
            batches = before.pop("batches")
            check_facts(before, now, "begin the data anew")
            if batches != now["batches"]:
                raise UserError(
                    "the checkpoint is from the middle of an epoch with other batches: give the same data,"
                    " --max-tokens, --batch-size and limits of length, or begin the data anew with --reset-dataloader."
                )
        return original(self, state_dict)


def facts_of(batches: iterators.EpochBatchIterator) -> dict[str, Any]:
    """Everything that decides which sentences batch i of an epoch holds, but the shuffling, which fairseq saves: by the
    flag that sets it, and a checksum of the batches."""
    frozen = batches.frozen_batches
    if getattr(batches, "summed", (None,))[0] is not frozen:
        checksum = 0
        for batch in frozen:
            checksum = zlib.crc32(len(batch).to_bytes(8, "little"), checksum)
            checksum = zlib.crc32(np.asarray(batch, np.int64).tobytes(), checksum)
        batches.summed = frozen, checksum
    return {
        "--distributed-world-size": batches.num_shards,
        "--seed": batches.seed,
        "--grouped-shuffling": batches.grouped_shuffling,
        "batches": batches.summed[1],
    }


def epochs_are_shuffled_as_asked():
    """fairseq shuffles the batches of all epochs, or none, as in the first that a process trains: with --curriculum N,
    after N epochs without shuffling, it still does not shuffle, unless the training is resumed then. The patch shuffles
    each epoch as its own options say."""

    @replace(iterators.EpochBatchIterator, "_get_iterator_for_epoch")
    def get_iterator_for_epoch(original, self, epoch, shuffle, *args, **kwargs):
        if order := getattr(self, "epoch_batch_sampler", None):  # of the epoch before
            order.shuffle = shuffle
        return original(self, epoch, shuffle, *args, **kwargs)


def workers_know_the_epoch():
    """fairseq keeps the processes that load data (--num-workers) from epoch to epoch, and tells only the main process
    which epoch it is. So words are masked in each epoch as in the first (--task masked_lm), and anew where the training
    is resumed. The patch starts these processes in each epoch, where the dataset depends on the epoch."""

    @replace(FairseqTask, "get_batch_iterator")
    def get_batch_iterator(original, self, dataset, *args, **kwargs):
        batches = original(self, dataset, *args, **kwargs)
        if type(dataset).set_epoch is not EpochListening.set_epoch:
            batches.persistent_workers = False
        return batches


def validation_leaves_the_training_alone():
    """With --valid-subset train, fairseq validates with the training's own iterator. So the dry run before a training
    uses up its first epoch, or the rest of the epoch in which it is resumed. The patch gives the validation an
    iterator of its own."""

    @replace(Trainer, "get_train_iterator")
    def get_train_iterator(original, self, *args, **kwargs):
        self.training_batches = original(self, *args, **kwargs)
        return self.training_batches

    @replace(Trainer, "get_valid_iterator")
    def get_valid_iterator(original, self, subset, disable_iterator_cache=False):
        training = getattr(self, "training_batches", None)
        if training is None or training.dataset is not self.task.dataset(subset):
            return original(self, subset, disable_iterator_cache)
        batches = original(self, subset, disable_iterator_cache=True)
        training.dataset.set_epoch(training.epoch)
        return batches


def schedules_go_on():
    """fairseq saves a checkpoint at an epoch's end before the learning rate is adapted to the validation, and does not
    save for how many epochs reduce_lr_on_plateau has waited. So a resumed training lowers the rate later. The patch
    saves the number, and adapts the rate when a training is resumed at an epoch's end."""

    @replace(ReduceLROnPlateauLRSchedule, "state_dict")
    def state_dict(original, self):
        return {**original(self), "num_bad_epochs": self.lr_scheduler.num_bad_epochs}

    @replace(ReduceLROnPlateauLRSchedule, "load_state_dict")
    def load_state_dict(original, self, state_dict):
        original(self, state_dict)
        self.lr_scheduler.num_bad_epochs = state_dict.get("num_bad_epochs", 0)

    @replace(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, **kwargs):
        extra_state, epoch_itr = original(cfg, trainer, **kwargs)
        at_an_end = epoch_itr.epoch > 1 and not epoch_itr.iterations_in_epoch
        if extra_state is not None and at_an_end and not (cfg.reset_optimizer or cfg.reset_lr_scheduler):
            trainer.lr_step(epoch_itr.epoch - 1, extra_state.get("val_loss"))
        return extra_state, epoch_itr


def annealing_goes_on():
    """With --lr-scheduler polynomial_decay --force-anneal N, fairseq lowers in each later epoch the rate that the epoch
    begins with, and does not save that rate. A resumed training begins the epoch with the rate of its last update. The
    patch saves the rate and its epoch."""

    @replace(PolynomialDecayLRSchedule, "get_next_lr")
    def get_next_lr(original, self, epoch):
        if epoch == getattr(self, "epoch", None):  # it goes on
            return self.lr
        self.epoch = epoch
        return original(self, epoch)

    @replace(PolynomialDecayLRSchedule, "state_dict")
    def state_dict(original, self):
        return {**original(self), "lr": self.lr, "epoch": getattr(self, "epoch", None)}

    @replace(PolynomialDecayLRSchedule, "load_state_dict")
    def load_state_dict(original, self, state_dict):
        original(self, state_dict)
        if self.cfg.force_anneal is not None and "lr" in state_dict:
            self.lr, self.epoch = state_dict["lr"], state_dict["epoch"]


def averages_go_on():
    """With --ema-update-freq N, fairseq counts the updates to the next step of the average from zero when a training is
    resumed. The patch counts them from the start of the training."""

    @replace(Trainer, "load_checkpoint")
    def load_checkpoint(original, self, *args, **kwargs):
        extra_state = original(self, *args, **kwargs)
        if extra_state is not None and self.cfg.ema.store_ema:
            self.ema.update_freq_counter = self.get_num_updates() % self.cfg.ema.ema_update_freq
        return extra_state
