"""A linear layer of eight bits: near the one in float32, the same in any batch, and only where it can be computed."""

import copy

import pytest
import torch
from torch import nn

from fairseq_plugins.modules.common.int8 import Int8Linear

computes = pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="the processor has no such products")


@pytest.fixture
def layer():
    torch.manual_seed(1)
    return nn.Linear(48, 300)


@computes
@torch.no_grad()
def test_no_output_is_further_off_than_rounding_can_make_it(layer):
    x, weight = torch.randn(2, 7, 48), layer.weight
    rows, columns = x.abs().amax(-1, keepdim=True) / 127, weight.abs().amax(-1) / 127
    bound = (x.abs().sum(-1, keepdim=True) * columns + rows * weight.abs().sum(-1) + 48 / 2 * rows * columns) / 2
    off = (Int8Linear(layer)(x) - layer(x)).abs()
    assert (off <= bound + 1e-5).all() and off.max() > 1e-4


@computes
@torch.no_grad()
def test_a_row_does_not_depend_on_its_batch_and_a_row_of_zeros_gives_the_bias(layer):
    x, int8 = torch.randn(9, 48), Int8Linear(layer)
    x[0], x[3] = 0, 1e4 * x[3]
    together = int8(x)
    assert all(torch.equal(together[i : i + 1], int8(x[i : i + 1])) for i in range(9))
    assert torch.equal(together[0], layer.bias)
    assert int8(x[:0]).shape == (0, 300)


@computes
def test_it_is_copied_compiled_and_has_no_gradient(layer):
    x, int8 = torch.randn(3, 48, requires_grad=True), Int8Linear(layer)
    y = int8(x)
    assert not y.requires_grad
    assert torch.equal(copy.deepcopy(int8)(x), y) and torch.equal(torch.compile(int8, backend="eager")(x), y)
    assert torch.equal(int8(x[0]), y[0])


@computes
def test_half_precision_is_refused_in_a_sentence(layer):
    int8 = Int8Linear(layer)
    for wrong in (lambda: Int8Linear(nn.Linear(2, 3).half()), lambda: int8(torch.ones(1, 48, dtype=torch.bfloat16))):
        with pytest.raises(ValueError, match="^int8 is for float32 on a CPU .--cpu, without --fp16"):
            wrong()


def test_another_processor_is_refused_in_a_sentence(layer, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    with pytest.raises(ValueError, match="^int8 needs oneDNN and a processor with AVX512 VNNI"):
        Int8Linear(layer)
