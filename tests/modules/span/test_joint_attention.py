"""The backward pass written by hand, held against autograd's."""

from types import SimpleNamespace

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from fairseq_plugins.modules.common.dropout import Dropout
from fairseq_plugins.modules.common.relative_position import RelativePosition
from fairseq_plugins.modules.span.attention import Context, JoinedContext
from fairseq_plugins.modules.span.persistent_memory import PersistentMemory

H, B, M, D, W, N = 2, 3, 7, 4, 5, 6


def make(masked, persistent):
    """A query, keys, values, mask and persistent vectors, all with gradients."""
    torch.manual_seed(0)
    query, keys, values = (
        torch.randn(H, B, length, D, dtype=torch.float64, requires_grad=True) for length in (M, W + M - 1, W + M - 1)
    )
    mask = torch.rand(H, W, dtype=torch.float64, requires_grad=True) if masked else None
    memory = PersistentMemory(H, N, D).double() if persistent else None
    return query, keys, values, mask, RelativePosition(D, W).double(), memory


def attend(kind, rate, query, keys, values, mask, position, memory):
    torch.manual_seed(5)
    return kind(keys, values, W, position, mask, False).attend(query, memory, Dropout(rate))


def gradients(y, query, keys, values, mask, position, memory):
    leaves = [query, keys, values, *position.parameters()]
    leaves += ([] if mask is None else [mask]) + ([] if memory is None else [*memory.parameters()])
    torch.manual_seed(2)
    return torch.autograd.grad((y * torch.randn_like(y)).sum(), leaves)


@pytest.mark.parametrize(
    "masked, persistent, rate",
    [(masked, persistent, 0.0) for masked in (False, True) for persistent in (False, True)]
    + [(False, False, 0.4), (True, False, 0.4)],  # with persistent vectors the plain way draws two masks
)
def test_equals_the_plain_way_gradients_included(masked, persistent, rate):
    parts = make(masked, persistent)
    joined, plain = (attend(kind, rate, *parts) for kind in (JoinedContext, Context))
    assert torch.allclose(joined, plain, atol=1e-12)
    for a, b in zip(gradients(joined, *parts), gradients(plain, *parts), strict=True):
        assert torch.allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_with_dropout_of_both_parts(masked):
    query, keys, values, mask, position, memory = make(masked, True)

    def attention(query, keys, values, key, value, *mask):
        vectors = SimpleNamespace(key=key, value=value, size=N)
        return attend(JoinedContext, 0.4, query, keys, values, *(mask or [None]), position, vectors)

    leaves = [query, keys, values, memory.key, memory.value] + ([mask] if masked else [])
    assert torch.autograd.gradcheck(attention, leaves, fast_mode=True)


def test_it_keeps_the_weights_once():
    """Autograd keeps them twice, before and after dropout."""
    kept = {}
    for kind in (Context, JoinedContext):
        saved = []
        with saved_tensors_hooks(lambda tensor, saved=saved: saved.append(tensor) or tensor, lambda tensor: tensor):
            attend(kind, 0.4, *make(True, True))
        parts = {tensor.data_ptr(): tensor for tensor in saved if tensor.size(-1) > W}
        kept[kind] = sum(tensor.numel() * tensor.element_size() for tensor in parts.values())
    weights = H * B * M * (W + M - 1 + N)
    assert kept[JoinedContext] == weights * (8 + 1)  # float64, and a boolean for dropout
    assert kept[Context] >= weights * (8 + 8 + 1)
