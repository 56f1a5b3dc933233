"""The settings that a training resumed in the middle of an epoch must share with the one before it."""

import numpy as np
import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.dataset import BlockSchedule, StreamDataset
from fairseq_plugins.streams.iterator import StreamIterator, StreamLayout

TOKENS = np.random.default_rng(1).integers(4, 44, 80)


def iterator(tokens=TOKENS, batch=2, world_size=1, length=4, seed=None, warm=(0, 0), update_freq=(1,)):
    schedule = BlockSchedule(length, *warm, update_freq)
    return StreamIterator(
        StreamDataset(tokens, "train", 1, 2), StreamLayout(batch, world_size, schedule, seed), num_workers=0
    )


def state_after(blocks, **options):
    epochs = iterator(**options)
    epoch = epochs.next_epoch_itr()
    for _ in range(blocks):
        next(epoch)
    return epochs.state_dict()


@pytest.mark.parametrize("options, words", [
    (dict(batch=4), "--batch-size, over all ranks, 2, where this training has 4"),
    (dict(length=5), "--tokens-per-sample 4, .* 5"),
    (dict(seed=7), "--stream-offset zero, .* random"),
    (dict(warm=(2, 3)), "--block-warmup 0, .* 2"),
    (dict(tokens=TOKENS[:-1]), "--no-end-of-line counts.* of 80, .* 79"),
    (dict(tokens=TOKENS[::-1]), "split whose checksum is"),
])  # fmt: skip
def test_other_blocks_are_refused_in_the_middle_of_an_epoch_only(options, words):
    resumed = iterator(**options)
    with pytest.raises(UserError, match=f"{words}.*--reset-dataloader"):
        resumed.load_state_dict(state_after(3))
    resumed.load_state_dict(state_after(10))
    assert resumed.next_epoch_idx == 2


def test_the_seed_counts_where_it_says_where_streams_start():
    with pytest.raises(UserError, match="--seed 1, where this training has 2"):
        iterator(seed=2).load_state_dict(state_after(3, seed=1))


def test_the_update_frequency_counts_while_blocks_are_short():
    iterator(update_freq=(2,)).load_state_dict(state_after(3))
    with pytest.raises(UserError, match="--update-freq"):
        iterator(warm=(2, 3), update_freq=(2,)).load_state_dict(state_after(3, warm=(2, 3)))


def test_as_many_streams_on_twice_the_ranks_are_the_same_blocks():
    epochs = iterator(batch=1, world_size=2)
    epochs.load_state_dict(state_after(3))
    assert epochs.iterations_in_epoch == 3


def test_updates_before_the_first_epoch_are_kept():
    epochs = iterator(warm=(2, 5))
    epochs.begin_after(4)
    assert [sample["target"].size(1) for sample in epochs.next_epoch_itr()][:3] == [2, 4, 4]
    resumed = iterator(warm=(2, 5))
    resumed.load_state_dict(epochs.state_dict())
    assert resumed.layout.schedule.first_update == 4


@pytest.mark.parametrize("batch, fits", [(2, True), (4, False)])
def test_checkpoints_of_earlier_versions_are_understood(batch, fits):
    """They have other names for the facts and for the number of streams."""
    state = state_after(3)
    state["cut"] = {name.replace("ranks", "workers"): value for name, value in state.pop("facts").items()}
    resumed = iterator(batch=batch)
    if fits:
        resumed.load_state_dict(state)
        assert resumed.iterations_in_epoch == 3
    else:
        with pytest.raises(UserError, match="--batch-size, over all ranks, 2, where this training has 4"):
            resumed.load_state_dict(state)
