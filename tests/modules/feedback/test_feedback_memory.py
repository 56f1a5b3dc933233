import pytest
import torch

from fairseq_plugins.modules.feedback.memory import (
    build_composition,
)


@pytest.mark.parametrize("name, row", [
    ("weighted", [1 / 3, 1 / 3, 1 / 3]), ("average", [1 / 3, 1 / 3, 1 / 3]), ("top", [0, 0, 1]),
    ("layer-0", [1, 0, 0]), ("layer-1", [0, 1, 0]),
])  # fmt: skip
def test_coefficients_at_the_start(name, row):
    memory = build_composition(name, 2)
    assert memory.mixing().tolist() == [pytest.approx(row)]
    assert sum(p.numel() for p in memory.parameters()) == (3 if name == "weighted" else 0)


def test_recurrent_memory_sees_its_own_layer_and_those_below():
    memory = build_composition("recurrent", 3)
    torch.nn.init.normal_(memory.layer_logits[1])
    mixing = memory.mixing()
    assert torch.equal(mixing != 0, torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], dtype=torch.bool))
    assert torch.allclose(mixing.sum(1), torch.ones(3))


@pytest.mark.parametrize("name", ["layer-3", "bottom", "layer-"])
def test_unknown_names_are_refused(name):
    with pytest.raises(ValueError, match=name):
        build_composition(name, 2)
