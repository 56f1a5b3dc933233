"""Persistent vectors."""

import pytest
import torch

from fairseq_plugins.modules.span.persistent_memory import PersistentMemory


def test_vectors_have_unit_variance_and_parameters_are_small():
    torch.manual_seed(0)
    memory = PersistentMemory(heads=4, size=100, head_dim=64)
    assert memory.key.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert memory.value.std().item() == pytest.approx(100**-0.5, rel=0.02)
    picked = torch.eye(100).expand(4, 1, 100, 100)
    assert memory.mix(picked).std().item() == pytest.approx(1, rel=0.02)


def test_no_vectors_are_refused():
    with pytest.raises(ValueError, match="0 persistent vectors cannot be attended to"):
        PersistentMemory(heads=2, size=0, head_dim=4)
