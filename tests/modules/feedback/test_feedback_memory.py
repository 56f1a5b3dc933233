import pytest
import torch

from fairseq_plugins.modules.feedback.memory import COMPOSITIONS, build_feedback_memory


def test_weighted_memory_starts_as_the_average_and_has_one_scalar_a_layer():
    memory = build_feedback_memory("weighted", 3)
    assert torch.allclose(memory.mixing(), torch.full((1, 4), 0.25))
    assert sum(p.numel() for p in memory.parameters()) == 4


@pytest.mark.parametrize("name, row", [("top", [0, 0, 1]), ("layer-0", [1, 0, 0]), ("layer-1", [0, 1, 0])])
def test_single_layer_memories(name, row):
    memory = build_feedback_memory(name, 2)
    assert memory.mixing().tolist() == [row]
    assert not list(memory.parameters())


def test_average_memory_counts_the_embedding_as_a_layer():
    assert torch.allclose(build_feedback_memory("average", 4).mixing(), torch.full((1, 5), 0.2).double())


def test_recurrent_memory_sees_its_own_layer_and_those_below():
    memory = build_feedback_memory("recurrent", 3)
    torch.nn.init.normal_(memory.layer_logits[1])
    mixing = memory.mixing()
    assert torch.equal(mixing != 0, torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], dtype=torch.bool))
    assert torch.allclose(mixing.sum(1), torch.ones(3))


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_every_composition_is_a_mixture(name):
    assert torch.allclose(build_feedback_memory(name, 2).mixing().sum(1).float(), torch.ones(1))


@pytest.mark.parametrize("name", ["layer-3", "bottom", "layer-"])
def test_unknown_names_are_refused(name):
    with pytest.raises(ValueError, match=name):
        build_feedback_memory(name, 2)
