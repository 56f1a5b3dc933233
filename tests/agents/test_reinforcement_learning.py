"""Blocks of steps, and which of them a validation counts."""

from unittest.mock import Mock

import pytest
import torch

from fairseq_plugins.agents.task import (
    ReinforcementLearningConfig,
    ReinforcementLearningTask,
    UpdateIterator,
    Updates,
    counted_steps,
)
from fairseq_plugins.errors import OutOfMemory, UserError


def test_steps_of_the_first_episodes_count_block_after_block():
    """Two episodes of each of three environments: the second environment ends its second one in the second block."""
    ends = torch.tensor([[0, 1, 0, 1, 0], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    ended = torch.zeros(3, dtype=torch.long)
    counted = counted_steps(ends, ended, each=2)
    assert counted.long().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]
    counted = counted_steps(ends, ended + torch.tensor([2, 1, 5]), each=2)
    assert counted.long().tolist() == [[0] * 5, [1, 1, 1, 0, 0], [0] * 5]


def test_a_block_without_memory_ends_the_training(monkeypatch):
    """fairseq would go on with the next, and agents with the memory of an episode that has ended."""
    task = ReinforcementLearningTask(ReinforcementLearningConfig(batch_size=4, bptt=7))
    monkeypatch.setattr(task, "learn", Mock(side_effect=RuntimeError("CUDA out of memory")))
    with pytest.raises(OutOfMemory, match="with 4 environments and blocks of 7 steps: lower --batch-size or --bptt"):
        task.train_step({})


def iterator(**facts):
    return UpdateIterator(Updates(4, steps=6), [[0], [1], [2], [3]], {"--updates-per-epoch": 4, "--bptt": 3, **facts})


def test_a_training_goes_on_within_an_epoch_with_the_same_settings():
    begun = iterator()
    blocks = begun.next_epoch_itr()
    next(blocks)
    state = begun.state_dict()
    resumed = iterator()
    resumed.load_state_dict(state)
    assert [sample["update"] for sample in resumed.next_epoch_itr()] == [1, 2, 3]
    with pytest.raises(UserError, match="with --bptt 3, where this training has 2: .* begin new episodes"):
        iterator(**{"--bptt": 2}).load_state_dict(state)
    del state["facts"]  # of an earlier version
    iterator(**{"--bptt": 2}).load_state_dict(state)
