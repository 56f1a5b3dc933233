"""Every token of a split is a target exactly once, for any number of streams, block length and world size."""

import itertools

import numpy as np
import pytest
import torch
from fairseq.data import iterators

from fairseq_plugins.streams.dataset import BlockSchedule, StreamDataset

PAD, EOS = 1, 2


def split_of(number: int) -> StreamDataset:
    """Tokens that are all different, from 10 on."""
    return StreamDataset(np.arange(10, 10 + number, dtype=np.uint16), "train", PAD, EOS)


def samples_of(dataset, batch, world_size, length, shift=0):
    cuts = BlockSchedule(length).cuts(dataset.longest(batch * world_size), epoch=1)
    return [dataset[block] for (block,) in dataset.blocks(batch, world_size, cuts, shift)]


def scored(sample):
    """(input, target) of every position that counts."""
    source, target = sample["net_input"]["src_tokens"], sample["target"]
    return list(zip(source[target != PAD].tolist(), target[target != PAD].tolist()))


@pytest.mark.parametrize("shift", [0, 1, 50])
@pytest.mark.parametrize(
    "tokens, batch, world_size, length", [(101, 1, 1, 7), (101, 4, 1, 5), (97, 3, 2, 8), (6, 3, 2, 4)]
)
def test_every_token_is_a_target_once_after_the_token_before_it(tokens, batch, world_size, length, shift):
    samples = samples_of(split_of(tokens), batch, world_size, length, shift % tokens)
    pairs = sorted(itertools.chain.from_iterable(map(scored, samples)), key=lambda pair: pair[1])
    assert pairs == [(EOS, 10), *((token - 1, token) for token in range(11, 10 + tokens))]
    assert sum(sample["ntokens"] for sample in samples) == tokens


def test_blocks_follow_each_other_and_only_the_end_is_padded():
    samples = samples_of(split_of(101), batch=4, world_size=1, length=5)
    targets = torch.cat([sample["target"] for sample in samples], dim=1)
    assert [row[row != PAD].tolist() for row in targets] == [
        list(range(10, 36)), list(range(36, 61)), list(range(61, 86)), list(range(86, 111))
    ]  # fmt: skip
    assert (targets == PAD).sum() == 3 and (targets[:, :-1] != PAD).all()
    assert [sample["start"] for sample in samples] == [0, 5, 10, 15, 20, 25]
    assert samples[-1]["net_input"]["src_lengths"].tolist() == [1, 0, 0, 0]


def test_a_rotated_stream_runs_over_the_end_of_the_split():
    (sample,) = samples_of(split_of(5), batch=1, world_size=1, length=5, shift=3)
    assert sample["target"].tolist() == [[13, 14, 10, 11, 12]]
    assert sample["net_input"]["src_tokens"].tolist() == [[12, 13, EOS, 10, 11]]


@pytest.mark.parametrize("processes", [0, 2])
def test_each_rank_is_dealt_its_own_streams(processes):
    """Through fairseq's iterator, for which a batch is one block; two epochs, the second one rotated."""
    dataset = split_of(50)

    def blocks(dataset, epoch):
        return dataset.blocks(2, 2, BlockSchedule(4).cuts(13, epoch), shift=epoch - 1)

    dealt = {}
    for rank in range(2):
        epochs = iterators.EpochBatchIterator(
            dataset, dataset.collater, blocks, num_shards=2, shard_id=rank, num_workers=processes,
            disable_shuffling=True,
        )  # fmt: skip
        dealt[rank] = [list(epochs.next_epoch_itr()) for _ in range(2)]
    for epoch in range(2):
        for rank in range(2):
            assert {tuple(sample["id"].tolist()) for sample in dealt[rank][epoch]} == {(2 * rank, 2 * rank + 1)}
        samples = dealt[0][epoch] + dealt[1][epoch]
        assert sorted(token for sample in samples for _, token in scored(sample)) == list(range(10, 60))
        assert dealt[0][epoch][0]["target"][0, 0] == 10 + epoch


# The schedule of block lengths


@pytest.mark.parametrize(
    "schedule, longest, epoch, lengths",
    [
        ({}, 19, 3, [8, 8, 3]),
        # short blocks first, then whole ones, across epochs
        ({"warm_updates": 6}, 11, 1, [3, 3, 3, 2]),
        ({"warm_updates": 6}, 11, 2, [3, 3, 5]),
        ({"warm_updates": 6}, 11, 3, [8, 3]),
        # two blocks an update in the first epoch (two updates of 2 + 2 blocks), three afterwards
        ({"warm_updates": 3, "update_freq": (2, 3)}, 11, 1, [3, 3, 3, 2]),
        ({"warm_updates": 3, "update_freq": (2, 3)}, 20, 1, [3, 3, 3, 3, 3, 3, 2]),
        ({"warm_updates": 3, "update_freq": (2, 3)}, 11, 2, [3, 3, 3, 2]),
        ({"warm_updates": 3, "update_freq": (2, 3)}, 11, 3, [8, 3]),
    ],
)
def test_the_lengths_of_blocks(schedule, longest, epoch, lengths):
    cuts = BlockSchedule(8, warm_length=3, **schedule).cuts(longest, epoch)
    assert [length for _, length in cuts] == lengths
    assert [start for start, _ in cuts] == [0, *itertools.accumulate(lengths)][:-1] and sum(lengths) == longest
