import pytest
import torch
from torch import nn

from fairseq_plugins.modules.common.stream_memory import StreamMemory


def test_it_starts_empty_and_advances_without_gradients():
    memory = StreamMemory()
    assert memory.caches == [] and memory.position == 0
    cache = torch.zeros(2, 5, 3, requires_grad=True) + 1
    memory.advance([cache], tokens=4)
    memory.advance([cache, cache], tokens=3)
    assert memory.position == 7
    assert [kept.requires_grad for kept in memory.caches] == [False, False]
    assert torch.equal(memory.caches[0], cache)


def test_a_second_model_is_refused_until_it_is_reset():
    memory, one, other = StreamMemory(), nn.Linear(1, 1), nn.Linear(1, 1)
    memory.claim(one)
    memory.claim(one)
    with pytest.raises(ValueError, match="another model"):
        memory.claim(other)
    memory.reset()
    memory.claim(other)


def test_a_memory_saved_and_loaded_goes_on_where_it_was(tmp_path):
    memory, loaded = StreamMemory(), StreamMemory()
    memory.advance([torch.arange(6.0).view(1, 2, 3)], tokens=2)
    torch.save(memory.state_dict(), tmp_path / "memory.pt")
    loaded.load_state_dict(torch.load(tmp_path / "memory.pt", weights_only=True), device="cpu")
    assert loaded.position == 2
    assert torch.equal(loaded.caches[0], memory.caches[0])
